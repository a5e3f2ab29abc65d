# SPDX-License-Identifier: Apache-2.0
"""Tensors that are not plain vectors: strided, 0-dim, empty, views, in place and out of place."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from exact import assert_same
from harness import Pool

pytestmark = [pytest.mark.quick, pytest.mark.lossy]


def matrix(rank: int, rows: int = 6, columns: int = 10) -> torch.Tensor:
    return torch.arange(rows * columns, dtype=torch.float32).reshape(rows, columns) + 100 * rank


def views(base: torch.Tensor) -> dict[str, torch.Tensor]:
    return {
        "transposed": base.t(),
        "every second column": base[:, ::2],
        "a block": base[1:4, 2:7],
        "one column": base[:, 3],
    }


def check_strided() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for name in views(matrix(0)):
        base = matrix(rank)
        dist.all_reduce(views(base)[name])
        expected = matrix(rank)
        views(expected)[name].copy_(sum(views(matrix(source))[name] for source in range(size)))
        assert_same(base, expected, ("all_reduce", name))  # nothing beside the view is touched
        base = matrix(rank)
        dist.broadcast(views(base)[name], size - 1)
        expected = matrix(rank)
        views(expected)[name].copy_(views(matrix(size - 1))[name])
        assert_same(base, expected, ("broadcast", name))


def test_strided(pool: Pool) -> None:
    pool.run(check_strided)


def check_strided_lists() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    outputs = [torch.zeros(10, 6).t() for _ in range(size)]
    dist.all_gather(outputs, matrix(rank, 10, 6).t())
    for source in range(size):
        assert_same(outputs[source], matrix(source, 10, 6).t(), ("all_gather", source))
    outputs = [torch.zeros(10, 6).t() for _ in range(size)]
    dist.all_to_all(outputs, [matrix(10 * rank + target, 10, 6).t() for target in range(size)])
    for source in range(size):
        assert_same(outputs[source], matrix(10 * source + rank, 10, 6).t(), ("all_to_all", source))
    output = torch.zeros(10, 6).t()
    pieces = [matrix(target, 10, 6).t() for target in range(size)]
    dist.scatter(output, pieces if rank == 0 else None, 0)
    assert_same(output, pieces[rank], "scatter")
    output = torch.zeros(10, 6).t()
    dist.reduce_scatter(output, pieces)
    assert_same(output, pieces[rank] * size, "reduce_scatter")


def test_strided_lists(pool: Pool) -> None:
    pool.run(check_strided_lists)


def check_scalars() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    scalar = torch.tensor(rank + 1)
    dist.all_reduce(scalar)
    assert_same(scalar, torch.tensor(size * (size + 1) // 2), "all_reduce")
    outputs = [torch.tensor(0) for _ in range(size)]
    dist.all_gather(outputs, torch.tensor(rank))
    assert [output.item() for output in outputs] == list(range(size))
    output = torch.empty(size, dtype=torch.int64)
    dist.all_gather_into_tensor(output, torch.tensor(rank).reshape(1))
    assert output.tolist() == list(range(size))


def test_scalars(pool: Pool) -> None:
    pool.run(check_scalars)


def check_empty() -> None:
    size = dist.get_world_size()
    for shape in ((0,), (3, 0), (0, 5)):
        dist.all_reduce(torch.empty(shape))
        dist.broadcast(torch.empty(shape), size - 1)
        outputs = [torch.empty(shape) for _ in range(size)]
        dist.all_gather(outputs, torch.empty(shape))
        dist.all_to_all_single(torch.empty(0), torch.empty(0))
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == size


def test_empty(pool: Pool) -> None:
    pool.run(check_empty)


def check_in_place() -> None:
    """The input is a part of the output, at the rank's own place."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for count in (1, 1000):
        output = torch.zeros(size * count)
        mine = output[rank * count : (rank + 1) * count]
        mine.fill_(rank + 1)
        dist.all_gather_into_tensor(output, mine)
        expected = torch.arange(1.0, size + 1).repeat_interleave(count)
        assert_same(output, expected, ("all_gather_into_tensor", count))
        data = torch.arange(float(size * count))
        mine = data[rank * count : (rank + 1) * count]
        expected = mine.clone() * size
        dist.reduce_scatter_tensor(mine, data)
        assert_same(mine, expected, ("reduce_scatter_tensor", count))


def test_in_place(pool: Pool) -> None:
    pool.run(check_in_place)


def check_inputs_are_kept() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    data = torch.arange(float(size * 100)) + rank
    before = data.clone()
    dist.reduce_scatter_tensor(torch.empty(100), data)
    dist.all_to_all_single(torch.empty_like(data), data)
    dist.all_gather_into_tensor(torch.empty(size * size * 100), data)
    dist.reduce_scatter(torch.empty(100), list(data.chunk(size)))
    assert_same(data, before, "an input was changed")
    if rank != 0:
        dist.reduce(data, 0)
        assert data.shape == before.shape
    else:
        dist.reduce(data, 0)


def test_inputs_are_kept(pool: Pool) -> None:
    pool.run(check_inputs_are_kept)


def check_shared_elements() -> None:
    """An expanded tensor can be sent; to be written it is refused, before anything is sent."""
    rank, size = dist.get_rank(), dist.get_world_size()
    expanded = torch.tensor([float(rank)]).expand(5)
    gathered = [torch.empty(5) for _ in range(size)]
    dist.all_gather(gathered, expanded)
    for source in range(size):
        assert_same(gathered[source], torch.full((5,), 1.0 * source), source)
    with pytest.raises(RuntimeError, match=r"share memory \(sizes \[5\], strides \[0\]\)"):
        dist.all_reduce(expanded)
    assert expanded[0] == rank
    if rank == 0:  # here alone: nobody waits for this rank
        with pytest.raises(RuntimeError, match="share memory"):
            dist.all_gather([expanded] * size, torch.empty(5))
    dist.barrier()


def test_shared_elements(pool: Pool) -> None:
    pool.run(check_shared_elements)


def check_offset_storage() -> None:
    """A tensor that starts at an odd place of its storage, and is not aligned."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for offset in (1, 3):
        storage = torch.zeros(4099 + 8, dtype=torch.uint8)
        tensor = storage[offset : offset + 4099]
        tensor.fill_(rank + 1)
        dist.all_reduce(tensor)
        assert (tensor == size * (size + 1) // 2).all()
        assert storage[:offset].sum() == 0 and storage[offset + 4099 :].sum() == 0


def test_offset_storage(pool: Pool) -> None:
    pool.run(check_offset_storage)
