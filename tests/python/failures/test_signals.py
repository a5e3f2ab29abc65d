# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C and handlers of signals during a wait: they run while it lasts, and not when it has ended."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import Any

import pytest
import torch
import torch.distributed as dist

from rocecoll import _core

pytestmark = pytest.mark.quick

LIMIT = timedelta(seconds=200)
# Ticks are counted from the first one that finds the operation under way. After this many, the rank
# is almost certainly in its wait.
TICK_S = 0.02
TICKS = 8


def all_reduce() -> None:
    dist.all_reduce(torch.ones(3))


def asynchronous() -> None:
    assert dist.all_reduce(torch.ones(3), async_op=True).wait()


def message() -> None:
    """Rank 0 receives a message that rank 1 sends late."""
    if dist.get_rank() == 0:
        dist.recv(torch.empty(3), 1)
    else:
        dist.send(torch.ones(3), 0)


def large_message() -> None:
    """Rank 0 sends a message for which rank 1 has no memory yet."""
    tensor = torch.ones(1 << 22)
    if dist.get_rank() == 0:
        dist.send(tensor, 1)
    else:
        dist.recv(tensor, 0)


def barrier() -> None:
    dist.barrier()


def with_callback() -> None:
    """The work ends on another thread."""
    work = dist.all_reduce(torch.ones(3), async_op=True)
    work.get_future().then(lambda done: done.value())
    assert work.wait()


def sparse() -> None:
    """Ends with a task on a thread of its own."""
    dist.all_reduce(torch.ones(3).to_sparse())


def monitored() -> None:
    dist.monitored_barrier(timeout=LIMIT)


def line() -> None:
    """Another thread drives."""
    other = dist.all_reduce(torch.ones(3), async_op=True)
    thread = threading.Thread(target=other.wait)
    thread.start()
    dist.all_reduce(torch.ones(3))
    thread.join()


OPERATIONS = [
    all_reduce,
    asynchronous,
    message,
    large_message,
    barrier,
    with_callback,
    sparse,
    monitored,
    line,
]


@contextmanager
def ticking(at_last: Callable[[], None]) -> Any:
    """Calls `at_last` in a signal's handler, once several have come while an operation runs."""
    ticks = 0

    def handler(number: int, frame: FrameType | None) -> None:
        nonlocal ticks
        if not any(group["running"] for group in _core.process_groups()):
            return
        ticks += 1
        if ticks == TICKS:
            signal.setitimer(signal.ITIMER_REAL, 0)
            at_last()

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)
        yield
        assert ticks >= TICKS
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def check_handler(operation: Callable[[], None], turn: str) -> None:
    """Rank 1 comes once the handler of rank 0 has run, which is in the operation by then."""
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 1:
        store.wait([turn], LIMIT)
        operation()
        return
    with ticking(lambda: store.set(turn, "")):
        operation()


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def check_interrupt(operation: Callable[[], None], turn: str) -> float:
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 1:
        store.wait([turn], LIMIT)
        operation()
    else:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with pytest.raises(KeyboardInterrupt), ticking(interrupt):
            operation()
        store.set(turn, "")
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    return tensor.item()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_handlers_run_during_a_wait(shared_pool, operation: Callable[[], None]) -> None:
    shared_pool(2).run(check_handler, operation, f"handler {operation.__name__}")


@pytest.mark.parametrize(
    "operation",
    [all_reduce, asynchronous, message, large_message, barrier, sparse],
    ids=lambda operation: operation.__name__,
)
def test_after_an_interrupted_wait_the_operation_goes_on(
    shared_pool, operation: Callable[[], None]
) -> None:
    """The group stays usable: the other rank's operation finds this one's."""
    assert shared_pool(2).run(check_interrupt, operation, f"interrupt {operation.__name__}") == [
        2.0,
        2.0,
    ]


def interrupted_barrier() -> None:
    if dist.get_rank() == 1:
        dist.monitored_barrier(timeout=LIMIT)
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with ticking(interrupt):
            dist.monitored_barrier(timeout=LIMIT)
    except KeyboardInterrupt as raised:
        raise RuntimeError("interrupted") from raised


def test_an_interrupted_monitored_barrier_fails_the_group_and_says_why(own_pool) -> None:
    """Its tokens would be taken for those of the next one."""
    with own_pool(3) as pool:
        pool.send(interrupted_barrier, ranks=[0, 1])  # without rank 2
        [first] = pool.collect([0])
        assert first.error == "RuntimeError: interrupted", first.error
        [second] = pool.collect([1])
        assert second.error and "the handler of a signal ended it on rank 0" in second.error
