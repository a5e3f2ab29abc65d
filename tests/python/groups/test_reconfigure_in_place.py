# SPDX-License-Identifier: Apache-2.0
"""c10d's own reconfigure(), which keeps the group's object: the cases that torch has for its backends, and ours."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from epochs import (
    CPU,
    ENOUGH_S,
    SHORT_S,
    Process,
    attempt,
    backend,
    check_exchanges,
    everyone,
    in_order,
    next_uuid,
    reconfigure,
    run,
)
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

pytestmark = [
    pytest.mark.quick,
    pytest.mark.skipif(
        torch.__version__ < "2.14", reason="before torch 2.14 c10d has no interface for it"
    ),
]
c10d: Any = dist  # its interface is younger than the torch that mypy sees
_kept: list[Any] = []  # the default group of this process, whose object is to stay
_held: list[Any] = []  # what a test holds on to


def begin(rank: int, size: int) -> None:
    """With a Store of its own, in which nobody else can look."""
    dist.destroy_process_group()
    c10d.init_process_group(
        "rocecoll", store=dist.HashStore(), rank=rank, world_size=size, enable_reconfigure=True
    )
    assert (dist.get_rank(), dist.get_world_size()) == (rank, size)
    assert c10d._supports_reconfigure() and backend().supports_reconfigure
    _kept[:] = [dist.group.WORLD]


def begin_all(*pools: Any) -> list[Process]:
    processes = everyone(*pools)
    for rank, process in enumerate(processes):
        run([process], begin, rank, len(processes))
    return processes


def handle() -> str:
    return str(c10d._get_reconfigure_handle())


def change(uuid: int, handles: Any, limit_s: float = ENOUGH_S) -> tuple[int, int]:
    work = c10d._reconfigure(uuid, handles, timeout=timedelta(seconds=limit_s))
    assert work.wait() and work.is_completed()
    assert _kept == [dist.group.WORLD]
    check_exchanges()
    return dist.get_rank(), dist.get_world_size()


def together(processes: Sequence[Process], by_set: bool = False) -> list[tuple[int, int]]:
    handles: Any = run(processes, handle)
    return run(processes, change, next(next_uuid), set(handles) if by_set else handles)


def refuse_calls() -> None:
    tensor, peer = torch.ones(1), (dist.get_rank() + 1) % dist.get_world_size()
    for call in (
        lambda: dist.all_reduce(tensor),
        lambda: dist.send(tensor, peer),
        lambda: dist.monitored_barrier(),
        lambda: backend().split(None, [0]),
        lambda: dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor, peer)]),
    ):
        with pytest.raises(RuntimeError, match="has no members before it is reconfigured"):
            call()
    assert backend().get_error() == torch._C._distributed_c10d.ErrorType.SUCCESS


def test_connects_to_nobody_before(own_pool) -> None:
    with own_pool(2) as pool:
        processes = begin_all(pool)
        run(processes, refuse_calls)
        assert together(processes) == in_order(2)


def begin_with_a_wrapper() -> None:
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    with pytest.raises(ValueError, match="TORCH_DISTRIBUTED_DEBUG=DETAIL"):
        begin(0, 2)
    dist.set_debug_level(dist.DebugLevel.OFF)


def test_refuses_a_wrapper_at_once(own_pool) -> None:
    with own_pool(1) as pool:
        run(begin_all(pool), begin_with_a_wrapper)


def test_shrinks_and_grows(own_pool) -> None:
    """Without the last or the middle rank, each alone, all again, the same again; handles stay good."""
    with own_pool(3) as pool:
        first, middle, last = processes = begin_all(pool)
        assert together(processes) == in_order(3)
        assert together([first, middle]) == in_order(2)
        assert together([first, last]) == in_order(2)
        for one in processes:
            assert together([one]) == in_order(1)
        for order in ([2, 0, 1], [0, 1, 2], [0, 1, 2]):
            assert together([processes[one] for one in order]) == in_order(3)
        assert sorted(together(processes, by_set=True)) == in_order(3)


def test_late_join_and_merge(own_pool) -> None:
    with own_pool(2) as one, own_pool(1) as late, own_pool(2) as other:
        processes = begin_all(one, late, other)
        assert together(processes[:2]) == in_order(2)
        assert together(processes[:3]) == in_order(3)
        assert together(processes[3:]) == in_order(2)
        assert together(processes) == in_order(5)


def abort() -> None:
    backend().abort()
    assert backend().get_error() == torch._C._distributed_c10d.ErrorType.SUCCESS
    with pytest.raises(dist.DistBackendError, match="aborted by rank"):
        dist.barrier()


def test_recovers_after_an_abort(own_pool) -> None:
    with own_pool(2) as pool:
        processes = begin_all(pool)
        together(processes)
        run(processes, abort)
        assert together(processes) == in_order(2)


def test_the_dead_are_named_and_replaced(own_pool) -> None:
    with own_pool(3) as pool, own_pool(1) as spare:
        first, dead, last, new = begin_all(pool, spare)
        together([first, dead, last])
        os.kill(pool.process(dead.rank).pid, signal.SIGKILL)
        for outcome in attempt([first, last], check_exchanges):
            assert "rank 1" in str(outcome.error) and 'group "0:' in str(outcome.error), outcome
        assert together([first, new, last]) == in_order(3)


def fail_to_change(uuid: int, handles: Any, size: int) -> None:
    with pytest.raises(dist.DistBackendError, match="rank 2"):
        change(uuid, handles, SHORT_S)
    assert dist.get_world_size() == size
    with pytest.raises(RuntimeError, match="already used"):
        change(uuid, handles, SHORT_S)


def test_a_failed_attempt_leaves_what_was(own_pool) -> None:
    """Before there are members, and when there are."""
    with own_pool(2) as pool, own_pool(1) as absent:
        everybody = begin_all(pool, absent)
        here, handles = everybody[:2], run(everybody, handle)
        run(here, fail_to_change, next(next_uuid), handles, 3)
        run(here, refuse_calls)
        together(here)
        run(here, fail_to_change, next(next_uuid), handles, 2)
        run(here, check_exchanges)
        assert together(everybody) == in_order(3)


def wrap() -> None:
    torch.manual_seed(0)
    _held[:] = [DistributedDataParallel(torch.nn.Linear(3, 1))]


def gradient() -> list[float]:
    model = _held[0]
    model.zero_grad()
    model(torch.full((1, 3), dist.get_rank() + 1.0)).sum().backward()
    [values] = model.module.weight.grad.tolist()
    return list(values)


def test_ddp_keeps_its_group(own_pool) -> None:
    """A model that is wrapped once averages over the ranks that are left."""
    with own_pool(3) as pool:
        processes = begin_all(pool)
        together(processes)
        run(processes, wrap)
        assert run(processes, gradient) == [[2.0] * 3] * 3
        together(processes[:2])
        assert run(processes[:2], gradient) == [[1.5] * 3] * 2


class InAnotherOrder(torch.nn.Module):
    """Its parameters get their gradients in an order that DDP learns in the first step only."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(1, 1, bias=False) for _ in range(3))
        for number, layer in enumerate(self.layers):
            torch.nn.init.constant_(layer.weight, number + 1.0)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        first, second, third = self.layers
        return first(third(second(given)))


def wrap_another() -> None:
    _held[:] = [DistributedDataParallel(InAnotherOrder())]


def gradients() -> list[float]:
    model = _held[0]
    model.zero_grad()
    model(torch.full((1, 1), dist.get_rank() + 1.0)).sum().backward()
    return [layer.weight.grad.item() for layer in model.module.layers]


def test_ddp_is_wrapped_anew_when_a_process_comes(own_pool) -> None:
    with own_pool(2) as pool, own_pool(1) as late:
        processes = begin_all(pool, late)
        together(processes[:2])
        run(processes[:2], wrap_another)
        for _ in range(2):
            assert run(processes[:2], gradients) == [[9.0, 4.5, 3.0]] * 2
        together(processes)
        run(processes, wrap_another)
        for _ in range(2):
            assert run(processes, gradients) == [[12.0, 6.0, 4.0]] * 3


def shard() -> float:
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 4)
    fully_shard(model, mesh=DeviceMesh.from_group(_kept[0], "cpu"))
    _held[:] = [model]
    return sharded_gradient()


def sharded_gradient() -> float:
    model = _held[0]
    model.zero_grad()
    model(torch.full((2, 8), dist.get_rank() + 1.0)).sum().backward()
    return float(model.weight.grad.full_tensor().sum())


def test_fsdp_keeps_its_group(own_pool) -> None:
    """The same ranks again, as after an abort: parameters stay sharded over them."""
    with own_pool(2) as pool:
        processes = begin_all(pool)
        together(processes)
        before = run(processes, shard)
        run(processes, abort)
        together(processes)
        assert run(processes, sharded_gradient) == before


def call_on(stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            dist.all_reduce(torch.ones(10))
        except dist.DistBackendError:
            continue


def change_under_calls(uuids: Sequence[int], handles: Any) -> None:
    """Rank 0 goes on calling, from another thread: its calls fail with their epoch, or count in the next."""
    stop = threading.Event()
    thread = threading.Thread(target=call_on, args=(stop,), daemon=True)
    if dist.get_rank() == 0:
        thread.start()
    for uuid in uuids:
        change_quietly(uuid, handles)
    stop.set()
    _held[:] = [thread]


def end_calls() -> None:
    backend().abort()
    if _held[0].ident is not None:
        _held[0].join(ENOUGH_S)
        assert not _held[0].is_alive()


def change_quietly(uuid: int, handles: Any) -> None:
    c10d._reconfigure(uuid, handles, timeout=timedelta(seconds=ENOUGH_S)).wait()


def test_calls_of_other_threads_end_with_their_epoch(own_pool) -> None:
    with own_pool(2) as pool:
        processes = begin_all(pool)
        together(processes)
        uuids = [next(next_uuid) for _ in range(20)]
        run(processes, change_under_calls, uuids, run(processes, handle))
        run(processes, end_calls)
        assert together(processes) == in_order(2)


def use_parts() -> None:
    """Groups made before stay; those made afterwards need no Store."""
    before = _held[0]
    total = torch.ones(1)
    dist.all_reduce(total, group=before)
    assert total.item() == 2
    after = dist.new_group(list(range(dist.get_world_size())))
    dist.all_reduce(total, group=after)
    assert total.item() == 2 * dist.get_world_size()
    part = backend().split(None, [0, 1])
    part.barrier().wait()


def make_part() -> None:
    _held[:] = [dist.new_group([0, 1])]
    with pytest.raises(NotImplementedError, match="only the default group"):
        c10d._reconfigure(1, [handle()], group=_held[0])


def test_other_groups(own_pool) -> None:
    with own_pool(2) as pool:
        processes = begin_all(pool)
        together(processes)
        run(processes, make_part)
        assert together(processes) == in_order(2)
        run(processes, use_parts)


def make_groups(count: int) -> None:
    _held[:] = [dist.new_group() for _ in range(count)]


def use_new_groups() -> str:
    """Those of some ranks and of all, whose names all members must find alike; the name of the last."""
    ranks = list(range(dist.get_world_size()))
    limit = timedelta(seconds=ENOUGH_S)
    for group in (
        dist.new_group(timeout=limit),
        dist.new_group(ranks, timeout=limit, use_local_synchronization=True),
    ):
        total = torch.ones(1)
        dist.all_reduce(total, group=group)
        assert total.item() == len(ranks)
    return str(group.group_name)


def test_new_groups_of_members_that_have_made_other_numbers_of_them(own_pool) -> None:
    """As one that has come to replace a rank, and has made none."""
    with own_pool(2) as pool, own_pool(1) as late:
        processes = begin_all(pool, late)
        together(processes[:2])
        run(processes[:2], make_groups, 2)
        for _ in range(2):
            assert together(processes) == in_order(3)
            assert len(set(run(processes, use_new_groups))) == 1


def change_in_a_batch(uuid: int, handles: Any) -> None:
    group: Any = dist.group.WORLD
    group._start_coalescing(CPU)
    group.allreduce([torch.ones(1)])
    change_quietly(uuid, handles)
    group.allreduce([torch.ones(1)])
    with pytest.raises(RuntimeError, match="reconfigured while a batch was open"):
        group._end_coalescing(CPU)
    check_exchanges()


def test_a_batch_belongs_to_one_epoch(own_pool) -> None:
    with own_pool(1) as pool:
        processes = begin_all(pool)
        together(processes)
        run(processes, change_in_a_batch, next(next_uuid), run(processes, handle))


def both_ways(uuid: int, handles: Any) -> None:
    """Ours does the same, and keeps the object too."""
    reconfigure(uuid, handles, ENOUGH_S)
    assert _kept == [dist.group.WORLD]


def test_both_ways_go_together(own_pool) -> None:
    with own_pool(2) as pool:
        processes = begin_all(pool)
        together(processes)
        run(processes, both_ways, next(next_uuid), run(processes, handle))
        assert together(processes) == in_order(2)
