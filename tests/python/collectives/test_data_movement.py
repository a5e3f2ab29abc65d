# SPDX-License-Identifier: Apache-2.0
"""broadcast, gather, scatter, all_gather, all_to_all and barrier: every byte in its place."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from exact import DTYPES, assert_same, counts, make_input
from harness import Pool

pytestmark = [pytest.mark.quick, pytest.mark.lossy]

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def check_broadcast(dtype: torch.dtype) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for index, count in enumerate(counts(size)):
        root = index % size
        tensor = make_input(dtype, count, rank)
        dist.broadcast(tensor, root)
        assert_same(tensor, make_input(dtype, count, root), (dtype, count, root))


@dtypes
def test_broadcast(pool: Pool, dtype: torch.dtype) -> None:
    pool.run(check_broadcast, dtype)


def check_all_gather(dtype: torch.dtype) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for count in counts(size):
        expected = [make_input(dtype, count, source) for source in range(size)]
        outputs = [torch.empty(count, dtype=dtype) for _ in range(size)]
        dist.all_gather(outputs, expected[rank].clone())
        for source in range(size):
            assert_same(outputs[source], expected[source], ("list", dtype, count, source))
        output = torch.empty(count * size, dtype=dtype)
        dist.all_gather_into_tensor(output, expected[rank].clone())
        assert_same(output, torch.cat(expected), ("tensor", dtype, count))


def check_uneven_all_gather(dtype: torch.dtype) -> None:
    """Each rank has another size, the first one nothing; in one tensor, in rows, and in two lists."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for unit in (1, 3, 5000):
        expected = [make_input(dtype, source * unit, source) for source in range(size)]
        outputs = [torch.empty_like(tensor) for tensor in expected]
        dist.all_gather(outputs, expected[rank].clone())
        for source in range(size):
            assert_same(outputs[source], expected[source], ("flat", dtype, unit, source))
        whole = torch.empty(sum(range(size)) * unit, dtype=dtype)
        parts = list(whole.split([source * unit for source in range(size)]))
        parts[rank].copy_(expected[rank])
        dist.all_gather(parts, parts[rank])  # in place
        assert_same(whole, torch.cat(expected), ("in place", dtype, unit))
        columns = [torch.empty(unit, source, dtype=dtype).t() for source in range(size)]
        dist.all_gather(columns, expected[rank].view(rank, unit))
        for source in range(size):
            assert_same(columns[source].flatten(), expected[source], ("rows", dtype, unit, source))
        halves = [[torch.empty_like(one) for one in expected for _ in range(2)] for _ in range(2)]
        dist.group.WORLD.allgather(halves, [expected[rank].clone(), expected[rank] * 0]).wait()
        for half in halves:
            for source in range(size):
                assert_same(half[2 * source], expected[source], ("lists", dtype, unit, source))
                assert_same(half[2 * source + 1], expected[source] * 0, ("second", dtype, unit))


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8], ids=str)
def test_uneven_all_gather(pool: Pool, dtype: torch.dtype) -> None:
    pool.run(check_uneven_all_gather, dtype)


@dtypes
def test_all_gather(pool: Pool, dtype: torch.dtype) -> None:
    pool.run(check_all_gather, dtype)


def check_gather_and_scatter(dtype: torch.dtype) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for index, count in enumerate(counts(size)):
        root = index % size
        outputs = [torch.empty(count, dtype=dtype) for _ in range(size)]
        dist.gather(make_input(dtype, count, rank), outputs if rank == root else None, root)
        if rank == root:
            for source in range(size):
                expected = make_input(dtype, count, source)
                assert_same(outputs[source], expected, ("gather", dtype, count, source))
        if hasattr(dist, "gather_single"):  # from torch 2.14 on
            check_gather_single(make_input(dtype, count, rank), root)
        pieces = [make_input(dtype, count, 100 + target) for target in range(size)]
        output = torch.empty(count, dtype=dtype)
        dist.scatter(output, pieces if rank == root else None, root)
        assert_same(output, make_input(dtype, count, 100 + rank), ("scatter", dtype, count))


def check_gather_single(mine: torch.Tensor, root: int) -> None:
    """Into a flat tensor, and into one with a row for each rank."""
    size, count = dist.get_world_size(), mine.numel()
    gather_single = getattr(dist, "gather_single")  # noqa: B009
    for shape in ((size * count,), (size, count)):
        output = torch.empty(shape, dtype=mine.dtype)
        gather_single(mine, output if dist.get_rank() == root else None, root)
        if dist.get_rank() != root:
            continue
        for source, block in enumerate(output.view(size, count)):
            assert_same(block, make_input(mine.dtype, count, source), ("single", count, source))


@dtypes
def test_gather_and_scatter(pool: Pool, dtype: torch.dtype) -> None:
    pool.run(check_gather_and_scatter, dtype)


def piece_of(dtype: torch.dtype, count: int, source: int, target: int) -> torch.Tensor:
    return make_input(dtype, count, 1000 * source + target)


def check_all_to_all(dtype: torch.dtype) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for count in (0, 1, 7, 1030):
        sent = [piece_of(dtype, count, rank, target) for target in range(size)]
        expected = [piece_of(dtype, count, source, rank) for source in range(size)]
        output = torch.empty(count * size, dtype=dtype)
        dist.all_to_all_single(output, torch.cat(sent))
        assert_same(output, torch.cat(expected), ("single", dtype, count))
        outputs = [torch.empty(count, dtype=dtype) for _ in range(size)]
        dist.all_to_all(outputs, sent)
        for source in range(size):
            assert_same(outputs[source], expected[source], ("list", dtype, count, source))


@dtypes
def test_all_to_all(pool: Pool, dtype: torch.dtype) -> None:
    pool.run(check_all_to_all, dtype)


def uneven(source: int, target: int) -> int:
    """Every pair has a length of its own, some of them 0."""
    return (5 * source + 3 * target) % 11


def check_uneven_all_to_all(scale: int) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    sent = [
        piece_of(torch.float32, scale * uneven(rank, target), rank, target)
        for target in range(size)
    ]
    expected = [
        piece_of(torch.float32, scale * uneven(source, rank), source, rank)
        for source in range(size)
    ]
    received = [len(piece) for piece in expected]
    output = torch.empty(sum(received))
    dist.all_to_all_single(output, torch.cat(sent), received, [len(piece) for piece in sent])
    assert_same(output, torch.cat(expected), ("single", scale))
    outputs = [torch.empty(length) for length in received]
    dist.all_to_all(outputs, sent)
    for source in range(size):
        assert_same(outputs[source], expected[source], ("list", scale, source))


@pytest.mark.parametrize("scale", [1, 40_001])
def test_uneven_all_to_all(pool: Pool, scale: int) -> None:
    pool.run(check_uneven_all_to_all, scale)


def check_large() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    count = 2 * 1024 * 1024 + 3
    tensor = make_input(torch.uint8, count, rank)
    dist.broadcast(tensor, size - 1)
    assert_same(tensor, make_input(torch.uint8, count, size - 1), "broadcast")
    output = torch.empty(count * size, dtype=torch.uint8)
    dist.all_gather_into_tensor(output, make_input(torch.uint8, count, rank))
    for source, piece in enumerate(output.chunk(size)):
        assert_same(piece, make_input(torch.uint8, count, source), ("all_gather", source))


def test_large(pool: Pool) -> None:
    pool.run(check_large)


def check_objects() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    mine = {"rank": rank, "text": "x" * (100 * rank)}
    gathered: list = [None] * size
    dist.all_gather_object(gathered, mine)
    assert [one["rank"] for one in gathered] == list(range(size))
    shared = [mine if rank == size - 1 else None]
    dist.broadcast_object_list(shared, size - 1)
    assert shared == [{"rank": size - 1, "text": "x" * (100 * (size - 1))}]


def test_objects(pool: Pool) -> None:
    pool.run(check_objects)


def check_barrier(store_path: str) -> None:
    """Nobody leaves before everybody has come."""
    rank, size = dist.get_rank(), dist.get_world_size()
    store = dist.FileStore(store_path, size)
    for turn in range(5):
        store.add(f"came{turn}", 1)
        dist.barrier()
        assert store.add(f"came{turn}", 0) == size, (rank, turn)


def test_barrier(pool: Pool, tmp_path) -> None:
    pool.run(check_barrier, str(tmp_path / "store"))
