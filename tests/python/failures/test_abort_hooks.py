# SPDX-License-Identifier: Apache-2.0
"""Hooks that a program registers for the failure of its group, and time that it gives calls for once."""

from __future__ import annotations

import os
import signal
import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from epochs import ENOUGH_S, SHORT_S, Process, attempt, backend, everyone, run
from torch.distributed import distributed_c10d

from rocecoll._c10d import recorded_calls, start_recording, stop_recording

pytestmark = [
    pytest.mark.quick,
    pytest.mark.skipif(torch.__version__ < "2.14", reason="before torch 2.14 c10d has neither"),
]
_ran: list[str] = []
_told = threading.Event()


def register() -> None:
    def fail() -> None:
        raise ArithmeticError("a hook's own")

    def note() -> None:
        _ran.append("noted")
        _told.set()

    backend().register_abort_hook(1, fail)
    backend().register_abort_hook(2, lambda: _ran.append("removed"))
    backend().register_abort_hook(3, note)
    backend().unregister_abort_hook(2)
    backend().unregister_abort_hook(17)  # which nobody has registered


def exchange() -> None:
    dist.all_reduce(torch.ones(1))


def ran() -> list[str]:
    _told.wait(ENOUGH_S)
    return _ran


def test_runs_once_when_a_rank_dies(own_pool) -> None:
    with own_pool(3) as pool:
        first, dead, last = everyone(pool)
        run([first, dead, last], register)
        run([first, dead, last], exchange)
        os.kill(pool.process(dead.rank).pid, signal.SIGKILL)
        for _ in range(2):
            assert all(outcome.error for outcome in attempt([first, last], exchange))
        assert run([first, last], ran) == [["noted"]] * 2


def time_out() -> None:
    backend().set_timeout(timedelta(seconds=SHORT_S))
    with pytest.raises(dist.DistBackendError, match="timeout"):
        exchange()
    assert backend().get_error() == torch._C._distributed_c10d.ErrorType.TIMEOUT


def test_runs_when_a_call_times_out(own_pool) -> None:
    with own_pool(2) as pool:
        first = Process(pool, 0)
        run([first], register)
        run([first], time_out)
        assert run([first], ran) == [["noted"]]


def register_and_wait_for_none() -> None:
    backend().register_abort_hook(1, _told.set)
    dist.all_reduce(torch.ones(1), async_op=True)


def change_until_one_runs() -> None:
    """The hook starts on another thread while this one holds Python's lock."""
    limit = time.monotonic() + ENOUGH_S
    while not _told.is_set() and time.monotonic() < limit:
        backend().register_abort_hook(2, _ran.clear)
        backend().unregister_abort_hook(2)
    assert _told.is_set()


def abort() -> None:
    backend().abort()


def test_hooks_change_while_they_run(own_pool) -> None:
    with own_pool(2) as pool:
        first, last = everyone(pool)
        run([first], register_and_wait_for_none)
        pool.send(change_until_one_runs, ranks=[first.rank])
        run([last], abort)
        [outcome] = pool.collect([first.rank])
        assert outcome.error is None, outcome


def end(by_abort: bool) -> None:
    register()
    work = dist.irecv(torch.ones(1), 1)
    backend().abort() if by_abort else dist.destroy_process_group()
    with pytest.raises(dist.DistBackendError):
        work.wait()
    with pytest.raises((dist.DistBackendError, ValueError)):
        exchange()


def what_ran() -> list[str]:
    return _ran


@pytest.mark.parametrize("by_abort", [True, False])
def test_does_not_run_when_this_rank_ends_the_group(own_pool, by_abort: bool) -> None:
    with own_pool(2) as pool:
        first = Process(pool, 0)
        run([first], end, by_abort)
        assert run([first], what_ran) == [[]]


def timeouts_ms() -> None:
    """Of calls before, while and after two extensions hold; of one that has a timeout of its own."""
    backend().set_timeout(timedelta(seconds=10))
    peer = 1 - dist.get_rank()
    first = start_recording(100)
    try:
        exchange()
        distributed_c10d._add_ephemeral_timeout_for_all_pgs(timedelta(seconds=5))
        pending = dist.irecv(torch.ones(1), peer)
        distributed_c10d._add_ephemeral_timeout_for_all_pgs(timedelta(seconds=2))
        exchange()  # completes: the second extension is over, the first is not
        exchange()
        dist.send(torch.ones(1), peer)
        pending.wait()
        exchange()
        calls, _ = recorded_calls(first)
    finally:
        stop_recording()
    told = [call["timeout_ms"] for call in calls]
    del told[4]  # the send: the peer's own may have come by then, or not
    assert told == [10_000, 15_000, 17_000, 15_000, 10_000]


def test_extensions_hold_until_the_first_call_after_them(own_pool) -> None:
    with own_pool(2) as pool:
        run(everyone(pool), timeouts_ms)
