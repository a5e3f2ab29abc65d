# SPDX-License-Identifier: Apache-2.0
"""DTensor: every way from one placement to another, and operators on spread tensors."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.distributed as dist
from reference import assert_close
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_tensor,
    empty,
    ones,
    zeros,
)

SHAPES = [(6, 12), (7, 5), (1, 4), (2, 0), (1000, 3)]
PLACES: list[Placement] = [Replicate(), Shard(0), Shard(1), Partial("sum"), Partial("avg")]


def world_mesh() -> DeviceMesh:
    return init_device_mesh("cpu", (dist.get_world_size(),))


def whole(shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Small multiples of three, of which sums, and averages of up to three, are exact."""
    generator = torch.Generator().manual_seed(sum(shape))
    return 3 * torch.randint(-9, 10, shape, generator=generator).to(dtype)


def spread(value: torch.Tensor, mesh: DeviceMesh, place: Placement) -> DTensor:
    """`value`, as a DTensor that lies as `place` says."""
    if not isinstance(place, Partial):
        return distribute_tensor(value, mesh, [place])
    rank, size = dist.get_rank(), dist.get_world_size()
    offset = 3 * (2 * rank - size + 1)
    part = value * (rank + 1 - size) if place.reduce_op == "sum" else value + offset
    if place.reduce_op == "sum":  # the parts' factors add up to one
        part = part + value * (size * (size - 1) // 2 + 1) * (rank == 0)
    return DTensor.from_local(part, mesh, [place])


def check_redistribution(dtype: torch.dtype) -> None:
    mesh = world_mesh()
    for shape in SHAPES:
        value = whole(shape, dtype)
        for source, target in itertools.product(PLACES, repeat=2):
            if source == target or isinstance(target, Partial):
                continue
            moved = spread(value, mesh, source).redistribute(mesh, [target])
            expected = distribute_tensor(value, mesh, [target], src_data_rank=None)
            what = (shape, source, target)
            assert moved.placements == (target,), what
            assert moved.to_local().shape == expected.to_local().shape, what
            assert torch.equal(moved.to_local(), expected.to_local()), what
            assert torch.equal(moved.full_tensor(), value), what


@pytest.mark.lossy
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=["f64", "bf16"])
def test_redistribution(shared_pool, size: int, dtype: torch.dtype) -> None:
    shared_pool(size).run(check_redistribution, dtype)


def check_on_plane(backend: str) -> None:
    """Two dimensions at once: each has groups of its own."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
    assert {dist.get_backend(group) for group in mesh.get_all_groups()} == {backend}
    value = whole((7, 5))
    places: list[Placement] = [Replicate(), Shard(0), Shard(1)]
    for source, target in itertools.product(itertools.product(places, repeat=2), repeat=2):
        moved = distribute_tensor(value, mesh, source).redistribute(mesh, target)
        expected = distribute_tensor(value, mesh, target, src_data_rank=None)
        assert torch.equal(moved.to_local(), expected.to_local()), (source, target)
        assert torch.equal(moved.full_tensor(), value), (source, target)


def test_on_plane(shared_pool, backend: str) -> None:
    shared_pool(4).run(check_on_plane, backend)


def check_distribution() -> None:
    """Rank 0's values are everybody's; parts come back in order."""
    mesh, rank, size = world_mesh(), dist.get_rank(), dist.get_world_size()
    for place in (Shard(0), Shard(1), Replicate()):
        spread_out = distribute_tensor(whole((5, 7)) + rank, mesh, [place])
        assert torch.equal(spread_out.full_tensor(), whole((5, 7)))
    parts = DTensor.from_local(
        torch.full((2, rank + 1), float(rank)), mesh, [Shard(0)], run_check=False
    )
    assert parts.shape[0] == 2 * size
    assert zeros(5, 3, device_mesh=mesh, placements=[Shard(0)]).full_tensor().sum() == 0
    assert ones(5, 3, device_mesh=mesh, placements=[Shard(1)]).sum().full_tensor() == 15
    assert empty(0, 3, device_mesh=mesh, placements=[Shard(0)]).full_tensor().shape == (0, 3)


@pytest.mark.parametrize("size", [2, 3])
def test_distribution(shared_pool, size: int) -> None:
    shared_pool(size).run(check_distribution)


def check_operators() -> None:
    """Values and gradients of what the operators make of spread tensors are those of whole ones."""
    mesh = world_mesh()

    def compute(left, right, bias):
        product = torch.tanh(left @ right / 50 + bias)
        chosen = torch.cat([product, product.flip(0)]).reshape(2, -1, product.shape[1])
        return torch.softmax(chosen, -1).var(dim=0).sum() + product.mean(0).amax() + product.norm()

    def run(values):
        leaves = [value.detach().requires_grad_() for value in values]
        result = compute(*leaves)
        result.backward()
        return [result.detach(), *(leaf.grad for leaf in leaves)]

    values = [whole((7, 5)), whole((5, 6)), whole((6,))]
    expected = run(values)
    for left, right, bias in itertools.product((Shard(0), Shard(1), Replicate()), repeat=3):
        if bias == Shard(1):
            continue
        found = run(
            distribute_tensor(value, mesh, [place])
            for value, place in zip(values, (left, right, bias), strict=True)
        )
        assert_close([one.full_tensor() for one in found], expected, 1e-12)


@pytest.mark.parametrize("size", [2, 3])
def test_operators(shared_pool, size: int) -> None:
    shared_pool(size).run(check_operators)
