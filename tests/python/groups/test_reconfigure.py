# SPDX-License-Identifier: Apache-2.0
"""Ranks that come and go: the default group made anew from handles, in every order that people need."""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest
import torch
import torch.distributed as dist
from epochs import (
    ENOUGH_S,
    SHORT_S,
    Process,
    attempt,
    backend,
    check_exchanges,
    everyone,
    in_order,
    join,
    next_uuid,
    own_handle,
    reconfigure,
    run,
)
from harness import Pool, PoolSpec

import rocecoll
from rocecoll import elastic

pytestmark = pytest.mark.quick


def test_order_is_that_of_the_list(own_pool) -> None:
    with own_pool(3) as pool:
        processes = everyone(pool)
        for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):  # handles taken anew each time
            assert join([processes[one] for one in order]) == in_order(3)


def test_shrinks_each_alone_then_together(own_pool) -> None:
    with own_pool(3) as pool:
        first, middle, last = everyone(pool)
        assert join([first, middle]) == in_order(2)
        assert join([first, last]) == in_order(2)
        for one in (first, middle, last):
            assert join([one]) == in_order(1)
        assert join([middle, last, first]) == in_order(3)
        assert join([middle, last, first]) == in_order(3)  # the same again, with another uuid


def test_handles_stay_good(own_pool) -> None:
    with own_pool(2) as pool:
        processes = everyone(pool)
        handles = run(processes, own_handle)
        for _ in range(3):
            assert run(processes, reconfigure, next(next_uuid), handles, ENOUGH_S) == in_order(2)


def test_late_join_and_merge(own_pool) -> None:
    """Of a process that comes alone; then of two groups that live, whose ranks order themselves."""
    with own_pool(2) as one, own_pool(1) as late, own_pool(2) as other:
        assert join(everyone(one, late)) == in_order(3)
        places = join(everyone(one, late, other), by_set=True)
        assert sorted(places) == in_order(5)


def abort() -> None:
    backend().abort()


def test_recovers_after_an_abort(own_pool) -> None:
    with own_pool(2) as pool:
        run(everyone(pool), abort)
        assert join(everyone(pool)) == in_order(2)


def test_the_dead_are_replaced(own_pool) -> None:
    with own_pool(3) as pool, own_pool(1) as spare:
        first, dead, last = everyone(pool)
        os.kill(pool.process(dead.rank).pid, signal.SIGKILL)
        errors = [outcome.error for outcome in attempt([first, last], check_exchanges)]
        assert all(error is not None and "rank 1" in error for error in errors), errors
        assert join([first, *everyone(spare), last]) == in_order(3)


def meet_at_first_rank(port: int) -> None:
    """The first rank serves the Store of the group."""
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.destroy_process_group()
    dist.init_process_group(
        "rocecoll", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size
    )


def test_the_host_of_the_store_may_die(own_pool) -> None:
    with own_pool(3) as pool:
        server, *others = everyone(pool)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        run(everyone(pool), meet_at_first_rank, port)
        os.kill(pool.process(server.rank).pid, signal.SIGKILL)
        attempt(others, check_exchanges)
        assert join(others) == in_order(2)


def try_to_reconfigure(uuid: int, handles: Any) -> None:
    """Succeeds, or fails as it may when a member is killed meanwhile, or just after."""
    try:
        rocecoll.reconfigure(None, uuid, handles, timedelta(seconds=ENOUGH_S))
        for _ in range(1000):
            dist.barrier()
    except dist.DistBackendError:
        return
    raise AssertionError("nobody was missed")


def test_killed_at_any_moment(own_pool, nightly: bool) -> None:
    """The others learn of it at once and go on, whichever rank it is and whatever the moment."""
    chance = random.Random(1)
    for trial in range(100 if nightly else 5):
        with own_pool(3) as pool:
            processes = everyone(pool)
            victim = processes.pop(trial % 3)
            handles = run(everyone(pool), own_handle)
            uuid = next(next_uuid)
            for process in (victim, *processes):
                pool.send(try_to_reconfigure, uuid, handles, ranks=[process.rank])
            time.sleep(chance.uniform(0, 0.06))  # the moment is what the trial is about
            os.kill(pool.process(victim.rank).pid, signal.SIGKILL)
            outcomes = [pool.collect([process.rank])[0] for process in processes]
            assert [outcome.error for outcome in outcomes] == [None] * 2, (trial, outcomes)
            assert join(processes) == in_order(2)


def failed(processes: Sequence[Process], handles: Any, limit_s: float = SHORT_S) -> list[str]:
    outcomes = attempt(processes, reconfigure, next(next_uuid), handles, limit_s)
    assert all(outcome.error for outcome in outcomes), outcomes
    return [str(outcome.error) for outcome in outcomes]


def test_a_failed_attempt_leaves_the_old_group(own_pool) -> None:
    """One attempt with a rank that does not come, and one with a rank that has ended."""
    with own_pool(2) as pool, own_pool(1) as absent:
        here = everyone(pool)
        handles = run([*here, *everyone(absent)], own_handle)
        for error in failed(here, handles):
            assert "DistBackendError" in error and "rank 2" in error, error
        run(here, check_exchanges)
        os.kill(absent.process(0).pid, signal.SIGKILL)
        for error in failed(here, handles):
            assert "DistBackendError" in error and "rank 2" in error, error
        run(here, check_exchanges)
        assert join(here) == in_order(2)


def fail_after_all_have_come(uuid: int, handles: Any, failing: str) -> None:
    agree = elastic._agree

    def agree_and_fail(made: Any, limit: timedelta) -> Any:
        agree(made, limit)
        raise dist.DistBackendError("its deadline came first")

    if own_handle() == failing:
        with (
            mock.patch.object(elastic, "_agree", agree_and_fail),
            pytest.raises(dist.DistBackendError, match="its deadline came first"),
        ):
            rocecoll.reconfigure(None, uuid, handles, timedelta(seconds=ENOUGH_S))
        check_exchanges()  # with itself: the others have left the old group
        return
    with pytest.raises(dist.DistBackendError, match="aborted by rank 0"):
        rocecoll.reconfigure(None, uuid, handles, timedelta(seconds=ENOUGH_S))
        dist.barrier()


def test_a_rank_that_fails_alone_does_not_leave_the_others_waiting(own_pool) -> None:
    """It fails although all have come, so the others have a group that it is not in."""
    with own_pool(1) as alone, own_pool(2) as pool:
        processes = everyone(alone, pool)
        handles = run(processes, own_handle)
        run(processes, fail_after_all_have_come, next(next_uuid), handles, handles[0])
        assert join(processes) == in_order(3)


def change_twice_at_once(uuids: list[int], handles: Any) -> tuple[int, int]:
    """While the first attempt waits, another one is through. It stands for another thread."""
    agree, later = elastic._agree, uuids[1:]

    def agree_late(made: Any, limit: timedelta) -> Any:
        agreed = agree(made, limit)
        if later:
            reconfigure(later.pop(), handles, ENOUGH_S)
        return agreed

    with (
        mock.patch.object(elastic, "_agree", agree_late),
        pytest.raises(RuntimeError, match="another thread of this process"),
    ):
        reconfigure(uuids[0], handles, ENOUGH_S)
    check_exchanges()
    return dist.get_rank(), dist.get_world_size()


def test_of_two_attempts_at_once_one_wins(own_pool) -> None:
    with own_pool(2) as pool:
        processes = everyone(pool)
        handles = run(processes, own_handle)
        uuids = [next(next_uuid), next(next_uuid)]
        assert run(processes, change_twice_at_once, uuids, handles) == in_order(2)
        assert join(processes) == in_order(2)


def reconfigure_by(choices: dict[str, Any], uuid: int) -> tuple[int, int]:
    return reconfigure(uuid, choices[own_handle()], SHORT_S)


def test_members_who_do_not_agree_do_not_meet(own_pool) -> None:
    """The first two want a group of two, the third one of all; and nobody is left in a half of one."""
    with own_pool(3) as pool:
        processes = everyone(pool)
        handles = run(processes, own_handle)
        lists = {handles[0]: handles[:2], handles[1]: handles, handles[2]: handles}
        outcomes = attempt(processes, reconfigure_by, lists, next(next_uuid))
        assert all("DistBackendError" in str(outcome.error) for outcome in outcomes), outcomes
        run(processes, check_exchanges)
        assert join(processes) == in_order(3)


def test_what_makes_no_group_is_refused_at_once(own_pool) -> None:
    with own_pool(2) as pool:
        processes = everyone(pool)
        first, second = run(processes, own_handle)
        for handles, why in (
            ([], "no handles"),
            ([second], "own handle is not among"),
            ([first, second, first], "handles 0 and 2 are of the same process"),
            ([first, "a word"], "handle 1 is not what reconfigure_handle"),
            ([first, second.replace('"protocol": 1', '"protocol": 7')], "one version everywhere"),
        ):
            [error] = failed(processes[:1], handles)
            assert why in error, error
        uuid = next(next_uuid)
        assert run(processes, reconfigure, uuid, [first, second], ENOUGH_S) == in_order(2)
        for outcome in attempt(processes, reconfigure, uuid, [first, second], ENOUGH_S):
            assert "already used" in str(outcome.error)
        run(processes, check_exchanges)


def refuse_timeouts(uuid: int, handles: Any) -> None:
    for limit in (timedelta(0), timedelta(seconds=-1), timedelta(microseconds=1)):
        with pytest.raises(ValueError, match="the timeout must be positive"):
            rocecoll.reconfigure(None, uuid, handles, limit)


def test_no_time_is_refused_at_once(own_pool) -> None:
    """And is no attempt: its uuid is still unused."""
    with own_pool(2) as pool:
        processes = everyone(pool)
        uuid, handles = next(next_uuid), run(processes, own_handle)
        run(processes[:1], refuse_timeouts, uuid, handles)
        assert run(processes, reconfigure, uuid, handles, ENOUGH_S) == in_order(2)


def test_options_that_must_be_alike_are_compared(own_pool) -> None:
    with own_pool(1) as one, own_pool(1, ROCECOLL_LANE_BYTES="65536") as other:
        processes = everyone(one, other)
        for error in failed(processes, run(processes, own_handle), ENOUGH_S):
            assert "RendezvousError" in error and "ROCECOLL_LANE_BYTES" in error, error


def refuse_part() -> None:
    part = dist.new_group([0])
    with pytest.raises(NotImplementedError, match="only the default group"):
        rocecoll.reconfigure_handle(part if dist.get_rank() == 0 else object())


def test_only_the_default_group(own_pool) -> None:
    with own_pool(2) as pool:
        pool.run(refuse_part)


def refuse_several_backends() -> None:
    with pytest.raises(ValueError, match="all must be rocecoll"):
        rocecoll.reconfigure_handle()


def test_not_of_several_backends() -> None:
    pool = Pool(PoolSpec(1, "cpu:gloo,cuda:rocecoll"))
    try:
        pool.run(refuse_several_backends)
    finally:
        pool.close()


def refuse_a_wrapper() -> None:
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    with pytest.raises(ValueError, match="TORCH_DISTRIBUTED_DEBUG=DETAIL"):
        rocecoll.reconfigure(None, 1, [rocecoll.reconfigure_handle()])
    dist.set_debug_level(dist.DebugLevel.OFF)


def test_not_of_a_wrapper(own_pool) -> None:
    with own_pool(1) as pool:
        pool.run(refuse_a_wrapper)


def shut_down_and_begin_anew() -> None:
    group: Any = dist.group.WORLD
    group.shutdown()
    for call in (own_handle, lambda: rocecoll.reconfigure(None, next(next_uuid), ["any"])):
        with pytest.raises(RuntimeError, match="every group of this process was shut down"):
            call()
    dist.destroy_process_group()
    dist.init_process_group("rocecoll", store=dist.HashStore(), rank=0, world_size=1)


def test_a_group_that_was_shut_down_has_no_handle(own_pool) -> None:
    with own_pool(2) as pool:
        run(everyone(pool), shut_down_and_begin_anew)
        assert join(everyone(pool)) == in_order(2)


def use_parts() -> None:
    """Groups made from a reconfigured one need no Store either."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for _ in range(2):  # the same name and ranks again are another group
        parts = [dist.new_group(ranks) for ranks in ([0, size - 1], list(range(size)))]
        for part in parts:
            if dist.get_rank(part) >= 0:
                total = torch.ones(1)
                dist.all_reduce(total, group=part)
                assert total.item() == part.size()
        if rank in (0, size - 1):
            dist.destroy_process_group(parts[0])
        dist.destroy_process_group(parts[1])


def test_parts_of_what_was_reconfigured(own_pool) -> None:
    with own_pool(2) as pool, own_pool(1) as late:
        processes = everyone(pool, late)
        join(processes)
        run(processes, use_parts)


def test_needs_no_barrier_in_a_store(own_pool) -> None:
    """torch has one after each group that it makes, if asked for it."""
    with (
        own_pool(2, TORCH_DIST_INIT_BARRIER="1") as pool,
        own_pool(1, TORCH_DIST_INIT_BARRIER="1") as late,
    ):
        processes = everyone(pool, late)
        assert join(processes) == in_order(3)
        run(processes, use_parts)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def reconfigure_often(first: int, count: int, handles: Any) -> tuple[list[int], list[int]]:
    """Descriptors and bytes of memory after each."""
    open_now, memory = [], []
    for uuid in range(first, first + count):
        rocecoll.reconfigure(None, uuid, handles, timedelta(seconds=ENOUGH_S))
        open_now.append(descriptors())
        memory.append(psutil.Process().memory_info().rss)
    check_exchanges()
    return open_now, memory


def test_many_epochs_take_nothing(own_pool, nightly: bool) -> None:
    with own_pool(2) as pool:
        processes = everyone(pool)
        handles = run(processes, own_handle)
        count = 10_000 if nightly else 40
        for open_now, memory in run(processes, reconfigure_often, 1, count, handles):
            assert min(open_now[-5:]) <= max(open_now[:5])  # some last for a moment
            # The numbers that were used, 0.2 KB each, and what the allocator keeps.
            assert memory[-1] - memory[count // 10] < (8 << 20) + 512 * count
