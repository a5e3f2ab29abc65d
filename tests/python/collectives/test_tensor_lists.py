# SPDX-License-Identifier: Apache-2.0
"""Lists of tensors in one call, also of tensors that share memory, against gloo between the same
ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from exact import PREMUL_FACTOR, torch_op
from torch.distributed.distributed_c10d import _coalescing_manager
from torch_features import GLOO_HAS_ALL_TO_ALL

pytestmark = pytest.mark.quick

Group = Any
Case = Callable[[Group, int], Any]
RANKS = 3
CASES: dict[str, Case] = {}


def like_gloo(case: Case) -> Case:
    """The case is given a group and a number of elements, and returns what gloo's must equal."""
    CASES[case.__name__] = case
    return case


def mine(count: int, turn: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Differs from rank to rank, from turn to turn and from element to element."""
    return (torch.arange(count) % 50 + 100 * dist.get_rank() + 1000 * turn).to(dtype)


def direct(group: Group) -> Any:
    """The backend; torch's dispatcher has no way to some of its calls."""
    return group._get_backend(torch.device("cpu"))


def rooted(options: Any, root: int, tensor: int = 0) -> Any:
    options.rootRank = root
    if hasattr(options, "rootTensor"):
        options.rootTensor = tensor
    return options


def all_reduce(group: Group, tensors: list[torch.Tensor], op: Any = dist.ReduceOp.SUM) -> Any:
    options = dist.AllreduceOptions()
    options.reduceOp = op
    return group.allreduce(tensors, options).get_future().wait()


def coalesced(group: Group, tensors: list[torch.Tensor]) -> Any:
    return group.allreduce_coalesced(tensors, dist.AllreduceCoalescedOptions()).get_future().wait()


@like_gloo
def coalesced_the_same_twice(group: Group, count: int) -> Any:
    tensor = mine(count)
    return coalesced(group, [tensor, tensor]), tensor


@like_gloo
def coalesced_the_same_among_others(group: Group, count: int) -> Any:
    one, other = mine(count), mine(count + 1, turn=1)
    return coalesced(group, [one, other, one, other[1:], torch.ones(0)]), one, other


@like_gloo
def coalesced_overlapping_views(group: Group, count: int) -> Any:
    """Each has its sum; where they overlap and sums differ, as between ranks, the last one counts."""
    tensor = mine(count)
    views = [tensor[: count // 2 + 1], tensor[count // 2 - 1 :]]
    if dist.get_rank() == 1 and count % 2 == 0:
        views.reverse()
    return coalesced(group, views), tensor


@like_gloo
def coalesced_strided_views(group: Group, count: int) -> Any:
    tensor = mine(2 * count)
    return coalesced(group, [tensor[::2], tensor[1::2], tensor[:count]]), tensor


@like_gloo
def coalescing_manager(group: Group, count: int) -> Any:
    tensor = mine(count)
    with _coalescing_manager(group):
        dist.all_reduce(tensor, group=group)
        dist.all_reduce(tensor, group=group)
    return tensor


@like_gloo
def list_reduced(group: Group, count: int) -> Any:
    found = []
    for op in ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"):
        tensors = [mine(count, turn, torch.int64) for turn in range(3)]
        found.append((all_reduce(group, tensors, getattr(dist.ReduceOp, op)), tensors))
    return found


@like_gloo
def list_reduced_of_the_same_twice(group: Group, count: int) -> Any:
    tensor = mine(count)
    return all_reduce(group, [tensor, tensor]), tensor


@like_gloo
def list_reduced_of_different_lengths(group: Group, count: int) -> Any:
    tensors = [mine(count, turn) for turn in range(dist.get_rank() + 1)]
    return all_reduce(group, tensors), tensors


@like_gloo
def list_reduced_sparse(group: Group, count: int) -> Any:
    tensors = [mine(count, turn).to_sparse() for turn in range(2)]
    all_reduce(group, tensors)
    twice = mine(count).to_sparse()
    all_reduce(group, [twice, twice])
    return [tensor.to_dense() for tensor in (*tensors, twice)]


@like_gloo
def list_broadcast(group: Group, count: int) -> Any:
    found = []
    for root in range(RANKS):
        tensors = [mine(count, turn) for turn in range(3)]
        options = rooted(dist.BroadcastOptions(), root, root)
        found.append((group.broadcast(tensors, options).get_future().wait(), tensors))
    return found


@like_gloo
def list_broadcast_of_the_same_twice(group: Group, count: int) -> Any:
    tensor = mine(count)
    group.broadcast([tensor, tensor], rooted(dist.BroadcastOptions(), 1, 1)).wait()
    return tensor


@like_gloo
def list_broadcast_of_different_lengths(group: Group, count: int) -> Any:
    tensors = [mine(count, turn) for turn in range(dist.get_rank() + 1)]
    group.broadcast(tensors, rooted(dist.BroadcastOptions(), 2)).wait()
    return tensors


@like_gloo
def list_gathered(group: Group, count: int) -> Any:
    found = []
    for inputs in (1, 2, 3):
        outputs = [[torch.zeros(count) for _ in range(RANKS * inputs)] for _ in range(inputs)]
        work = group.allgather(outputs, [mine(count, turn) for turn in range(inputs)])
        found.append((work.get_future().wait(), outputs))
    return found


@like_gloo
def list_gathered_strided(group: Group, count: int) -> Any:
    """All in one piece of memory, the first inputs in place; the second list is a strided one."""
    whole = mine(2 * RANKS * count)
    first = list(whole.chunk(2 * RANKS))
    second = [mine(2 * count, turn).view(count, 2)[:, 1] for turn, _ in enumerate(first)]
    inputs = [first[2 * dist.get_rank()], second[0]]
    work = group.allgather([first, second], inputs)
    work.wait()
    return whole, second


@like_gloo
def gathered_into_the_same(group: Group, count: int) -> Any:
    output = torch.zeros(count)
    group.allgather([[output] * RANKS], [mine(count)]).wait()
    return output


@like_gloo
def coalesced_gather(group: Group, count: int) -> Any:
    """Lists of lists, as the future yields them; in the second call outputs overlap."""
    inputs = [mine(count), mine(2 * count, turn=1)]
    outputs = [[torch.zeros(count), torch.zeros(2 * count)] for _ in range(RANKS)]
    future = direct(group).allgather_coalesced(outputs, inputs).get_future()
    shared = torch.zeros(2 * count)
    overlapping = [[shared[:count], shared] for _ in range(RANKS)]
    direct(group).allgather_coalesced(overlapping, inputs).wait()
    return future.wait(), outputs, shared


@like_gloo
def coalesced_gather_of_outputs(group: Group, count: int) -> Any:
    """An input lies in the output of another input; the last call has the same output twice."""
    outputs = [mine(RANKS * count, turn) for turn in range(2)]
    inputs = [outputs[1][:count], outputs[0][-count:]]
    group.allgather_into_tensor_coalesced(outputs, inputs).wait()
    shared = torch.zeros(RANKS * count)
    inputs = [mine(count), mine(count, turn=1)]
    group.allgather_into_tensor_coalesced([shared, shared], inputs).wait()
    return outputs, shared


@like_gloo
def coalesced_scatter_of_outputs(group: Group, count: int) -> Any:
    inputs = [mine(RANKS * count, turn) for turn in range(2)]
    outputs = [inputs[1][:count], torch.zeros(count)]
    group.reduce_scatter_tensor_coalesced(outputs, inputs).wait()
    shared = torch.zeros(count)
    group.reduce_scatter_tensor_coalesced([shared, shared], inputs).wait()
    return outputs, shared


@like_gloo
def collected_by_root_into_the_same(group: Group, count: int) -> Any:
    output = torch.zeros(count)
    outputs = [[output] * RANKS] if dist.get_rank() == 1 else []
    group.gather(outputs, [mine(count)], rooted(dist.GatherOptions(), 1)).wait()
    return output


@like_gloo
def exchanged_into_the_same(group: Group, count: int) -> Any:
    output = torch.zeros(count)
    group.alltoall([output] * RANKS, [mine(count, turn) for turn in range(RANKS)]).wait()
    return output


def compare(name: str) -> None:
    gloo = dist.new_group(backend="gloo")
    for count in (4, 5, 70_001):
        actual = CASES[name](dist.group.WORLD, count)
        expected = CASES[name](gloo, count)
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)
    dist.barrier()
    dist.destroy_process_group(gloo)


@pytest.mark.lossy
@pytest.mark.parametrize("name", CASES)
def test_like_gloo(shared_pool, name: str) -> None:
    if name == "exchanged_into_the_same" and not GLOO_HAS_ALL_TO_ALL:
        pytest.skip("before torch 2.12 gloo has no alltoall")
    shared_pool(RANKS).run(compare, name)


def check_where_gloo_is_of_no_use() -> None:
    """Of three equal tensors gloo counts the third twice. It refuses overlapping views in a
    broadcast, and in an all_reduce its result depends on how far apart they are. Here each counts
    once, all get the result, and where they overlap the last one counts. A broadcast stores the
    root's first."""
    world = dist.group.WORLD
    total = sum(100 * rank for rank in range(RANKS))
    tensor = torch.full((5,), 100.0 * dist.get_rank())
    all_reduce(world, [tensor] * 3)
    assert tensor.tolist() == [3 * total] * 5
    tensor = mine(4)
    all_reduce(world, [tensor[:3], tensor[1:]])
    reduced = [2 * total + RANKS * (2 * i + 1) for i in range(3)]
    assert tensor.tolist() == [reduced[0], *reduced]
    tensor = mine(4)
    world.broadcast([tensor[:3], tensor[1:]], rooted(dist.BroadcastOptions(), 1, 1)).wait()
    assert tensor.tolist() == [101, 102, 103, 103]


def test_where_gloo_is_of_no_use(shared_pool) -> None:
    shared_pool(RANKS).run(check_where_gloo_is_of_no_use)


def check_inference_mode() -> None:
    """Results that go through temporaries, stored by whichever thread completes the call."""
    world, count = dist.group.WORLD, 70_001
    with torch.inference_mode():
        for _ in range(10):
            tensors = [mine(count, turn) for turn in range(2)]
            strided = torch.stack(tensors, dim=1)[:, 1]
            sparse = mine(count).to_sparse()
            works = [
                world.allreduce(tensors),
                world.allreduce([strided]),
                world.allreduce([sparse]),
            ]
            for work in works:
                work.get_future().wait()
            assert tensors[0].equal(tensors[1])
            assert (tensors[0] - strided).equal(sparse.to_dense())


def test_inference_mode(shared_pool) -> None:
    shared_pool(RANKS).run(check_inference_mode)


def check_factor() -> None:
    """Everything has it once."""
    tensors = [mine(3, turn) for turn in range(2)]
    plain = [tensor.clone() for tensor in tensors]
    all_reduce(dist.group.WORLD, plain)
    all_reduce(dist.group.WORLD, tensors, torch_op("PREMUL_SUM"))
    for tensor in tensors:
        assert tensor.equal(plain[0] * PREMUL_FACTOR)


def test_factor(shared_pool) -> None:
    shared_pool(RANKS).run(check_factor)


def check_refusals() -> None:
    """Nothing is sent, and no tensor is changed."""
    world, kept = dist.group.WORLD, mine(3)
    with pytest.raises(RuntimeError, match=r"AVG requires a single-element tensor list, got 2"):
        all_reduce(world, [kept, mine(3)], dist.ReduceOp.AVG)
    with pytest.raises(RuntimeError, match="BAND"):
        all_reduce(world, [kept, mine(3)], dist.ReduceOp.BAND)
    spread = torch.zeros(1).expand(3)
    for call in (
        lambda: all_reduce(world, [kept, spread]),
        lambda: coalesced(world, [kept, spread]),
        lambda: world.broadcast([kept, spread], rooted(dist.BroadcastOptions(), 0)),
    ):
        with pytest.raises(RuntimeError, match=r"share memory .* as after expand\(\)"):
            call()
    assert kept.equal(mine(3))
    dist.barrier()


def test_refusals(shared_pool) -> None:
    shared_pool(RANKS).run(check_refusals)
