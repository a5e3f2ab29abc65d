# SPDX-License-Identifier: Apache-2.0
"""all_reduce of sparse COO tensors, against gloo between the same ranks."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from exact import assert_same
from harness import Pool
from torch.nn.parallel import DistributedDataParallel

pytestmark = pytest.mark.quick

SIZES = (50, 4, 3)


def sparse_input(
    rank: int, elements: int, dtype: torch.dtype = torch.float32, sparse_dims: int = 2
) -> torch.Tensor:
    """Not coalesced: some indices occur twice, also on several ranks. Sums of the values are exact,
    as gloo adds in an order of its own."""
    generator = torch.Generator().manual_seed(31 * rank + elements)
    indices = torch.stack(
        [torch.randint(0, n, (elements,), generator=generator) for n in SIZES[:sparse_dims]]
    )
    values = torch.randint(-4, 5, (elements, *SIZES[sparse_dims:]), generator=generator)
    return torch.sparse_coo_tensor(indices, values.to(dtype), SIZES)


def assert_same_sparse(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert actual.is_coalesced() and actual.shape == expected.shape
    assert_same(actual.indices(), expected.indices(), "indices")
    assert_same(actual.values(), expected.values(), "values")


def check_like_gloo(
    elements: Callable[[int], int], dtype: torch.dtype, sparse_dims: int
) -> tuple[list, list]:
    gloo = dist.new_group(backend="gloo")
    rank = dist.get_rank()
    ours = sparse_input(rank, elements(rank), dtype, sparse_dims)
    theirs = ours.clone()
    dist.all_reduce(ours)
    dist.all_reduce(theirs, group=gloo)
    assert_same_sparse(ours, theirs)
    dist.destroy_process_group(gloo)
    return ours.indices().tolist(), ours.values().tolist()


def equal_numbers(rank: int) -> int:
    return 20


def growing_numbers(rank: int) -> int:
    return 400 * rank


def only_rank_one(rank: int) -> int:
    return 7 if rank == 1 else 0


def nothing(rank: int) -> int:
    return 0


@pytest.mark.lossy
@pytest.mark.parametrize("elements", [equal_numbers, growing_numbers, only_rank_one, nothing])
def test_like_gloo(pool: Pool, elements: Callable[[int], int]) -> None:
    results = pool.run(check_like_gloo, elements, torch.float32, 2)
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int32], ids=str)
@pytest.mark.parametrize("sparse_dims", [1, 3])
def test_types_and_dense_dims(shared_pool, dtype: torch.dtype, sparse_dims: int) -> None:
    shared_pool(3).run(check_like_gloo, equal_numbers, dtype, sparse_dims)


def check_among_others() -> None:
    """Several at once between dense collectives and messages, waited for in reverse."""
    rank, size = dist.get_rank(), dist.get_world_size()
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    before = backend._get_sequence_number_for_group()
    works, sparse, dense = [], [], []
    for turn in range(6):
        sparse.append(sparse_input(rank, 5 * turn * (rank + 1)))
        works.append(dist.all_reduce(sparse[-1], async_op=True))
        dense.append(torch.full((turn * 1000 + 1,), 1.0 * rank))
        works.append(dist.all_reduce(dense[-1], async_op=True))
        works.append(dist.isend(torch.zeros(1), (rank + 1) % size))
        works.append(dist.irecv(torch.empty(1), (rank - 1) % size))
    for work in reversed(works):
        work.wait()
    assert backend._get_sequence_number_for_group() == before + 12
    assert all((tensor == sum(range(size))).all() for tensor in dense)
    for turn, tensor in enumerate(sparse):
        inputs = [sparse_input(r, 5 * turn * (r + 1)) for r in range(size)]
        torch.testing.assert_close(
            tensor.to_dense(), torch.stack([one.to_dense() for one in inputs]).sum(dim=0)
        )


@pytest.mark.lossy
def test_among_others(shared_pool) -> None:
    shared_pool(3).run(check_among_others)


def check_barrier_comes_after(elements: int) -> None:
    """A rank that has passed the barrier finds the sums of all earlier calls; so do the others."""
    rank, size = dist.get_rank(), dist.get_world_size()
    values = torch.full((elements * (rank + 1),), 1.0)
    sparse = [
        torch.sparse_coo_tensor(torch.arange(len(values))[None], values, (elements * size,))
        for _ in range(2)
    ]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in sparse]
    after = torch.ones(3)
    barrier = dist.barrier(async_op=True)
    behind = dist.all_reduce(after, async_op=True)
    barrier.wait()
    assert all(work.is_completed() for work in works)
    expected = size - torch.arange(elements * size) // elements
    assert all(torch.equal(tensor.to_dense(), 1.0 * expected) for tensor in sparse)
    behind.wait()
    assert after.tolist() == [size] * 3
    dist.barrier()  # nothing is under way


@pytest.mark.lossy
@pytest.mark.parametrize("elements", [1, 100_000])
def test_barrier_comes_after(shared_pool, elements: int) -> None:
    shared_pool(3).run(check_barrier_comes_after, elements)


def check_barrier_in_a_batch() -> None:
    elements, world = 100_000, dist.distributed_c10d._get_default_group()
    tensor = torch.ones(elements).to_sparse()
    work = dist.all_reduce(tensor, async_op=True)
    world._start_coalescing(torch.device("cpu"))
    world.barrier()
    world._end_coalescing(torch.device("cpu")).wait()
    assert work.is_completed()
    assert (tensor.to_dense() == dist.get_world_size()).all()


def test_barrier_in_a_batch(shared_pool) -> None:
    shared_pool(2).run(check_barrier_in_a_batch)


def check_barrier_after_a_failure() -> None:
    rank = dist.get_rank()
    work = dist.all_reduce(torch.ones(3 + rank).to_sparse(), async_op=True)
    dist.barrier()
    with pytest.raises(RuntimeError, match="Sparse dimensions do not match"):
        work.wait()
    check_future()


def test_barrier_after_a_failure(shared_pool) -> None:
    shared_pool(2).run(check_barrier_after_a_failure)


def check_rounding() -> list[float]:
    tensor = torch.sparse_coo_tensor([[0, 1]], [0.1 * 3 ** dist.get_rank(), 1.0], (3,))
    dist.all_reduce(tensor)
    return tensor.to_dense().tolist()


def test_rounding_is_the_same_everywhere(shared_pool) -> None:
    results = shared_pool(5).run(check_rounding)
    expected = torch.tensor(0.1)
    for rank in range(1, 5):
        expected = expected + torch.tensor(0.1 * 3**rank)
    assert results == [[expected.item(), 5.0, 0.0]] * 5


def check_future() -> None:
    size = dist.get_world_size()
    tensor = torch.ones(6).to_sparse()
    future = dist.all_reduce(tensor, async_op=True).get_future()
    doubled = future.then(lambda done: done.value()[0].to_dense() * 2)
    assert doubled.wait().tolist() == [2.0 * size] * 6
    assert tensor.to_dense().tolist() == [size] * 6


def test_future(shared_pool) -> None:
    shared_pool(2).run(check_future)


def check_refusals() -> None:
    rank = dist.get_rank()
    with pytest.raises(RuntimeError, match="unsupported reduction operation"):
        dist.all_reduce(torch.ones(3).to_sparse(), dist.ReduceOp.MAX)
    tensor = torch.ones(3 + rank).to_sparse()
    with pytest.raises(RuntimeError, match="Sparse dimensions do not match"):
        dist.all_reduce(tensor)
    assert tensor.to_dense().tolist() == [1] * (3 + rank)
    world = dist.distributed_c10d._get_default_group()
    world._start_coalescing(torch.device("cpu"))
    world.allreduce([torch.ones(3).to_sparse()])
    with pytest.raises(RuntimeError, match="part of a batch"):
        world._end_coalescing(torch.device("cpu"))
    check_future()


def test_refusals(shared_pool) -> None:
    shared_pool(2).run(check_refusals)


def check_abort() -> None:
    """Pending for want of the last rank, then the group fails."""
    if dist.get_rank() == 0:
        tensor = torch.ones(3).to_sparse()
        work = dist.all_reduce(tensor, async_op=True)
        future = work.get_future()
        dist.distributed_c10d._get_default_group().abort()
        with pytest.raises(dist.DistBackendError, match="aborted"):
            work.wait()
        with pytest.raises(RuntimeError, match="aborted"):
            future.wait()
        assert tensor.to_dense().tolist() == [1] * 3


def test_abort(own_pool) -> None:
    with own_pool(2) as pool:
        pool.run(check_abort)


def train(model: torch.nn.Module, rank: int) -> list[torch.Tensor]:
    """Two steps on words that the ranks have in common in part."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(2):
        words = torch.tensor([rank, rank + 1, 2 * rank + step, 9])
        model(words).pow(2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [parameter.detach().clone() for parameter in model.parameters()]


def check_ddp() -> None:
    gloo = dist.new_group(backend="gloo")
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Embedding(10, 4, sparse=True), torch.nn.Linear(4, 2))
    theirs = train(DistributedDataParallel(copy.deepcopy(model), process_group=gloo), _rank())
    ours = train(DistributedDataParallel(model), _rank())
    for actual, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(actual, expected)
    dist.destroy_process_group(gloo)


def _rank() -> int:
    return dist.get_rank()


def test_ddp_with_sparse_gradients(shared_pool) -> None:
    shared_pool(3).run(check_ddp)
