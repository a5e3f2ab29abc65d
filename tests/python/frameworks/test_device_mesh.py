# SPDX-License-Identifier: Apache-2.0
"""DeviceMesh: groups along one, two and three dimensions, slices, and flattened dimensions."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch_features
from exact import assert_same
from reference import own_groups
from torch.distributed import _functional_collectives as functional
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

pytestmark = pytest.mark.quick


def members(mesh: DeviceMesh, dimension: str) -> list[int]:
    """The global ranks beside this one along a dimension, from the mesh's tensor alone."""
    index: list[int | slice] = list(mesh.get_coordinate() or ())
    index[(mesh.mesh_dim_names or ()).index(dimension)] = slice(None)
    return mesh.mesh[tuple(index)].tolist()


def assert_group_works(group: dist.ProcessGroup, ranks: list[int]) -> None:
    assert dist.get_process_group_ranks(group) == ranks
    assert dist.get_backend(group) == dist.get_backend()
    rank = dist.get_rank()
    total = torch.full((1001,), float(rank))
    dist.all_reduce(total, group=group)
    assert_same(total, torch.full((1001,), float(sum(ranks))), ranks)
    gathered = [torch.empty(3) for _ in ranks]
    dist.all_gather(gathered, torch.full((3,), float(rank)), group=group)
    assert [one[0].item() for one in gathered] == ranks


@own_groups()
def check_one_dimension() -> None:
    """The mesh of all ranks is the default group itself; with a name or without."""
    size = dist.get_world_size()
    for names in (None, ("dp",)):
        mesh = init_device_mesh("cpu", (size,), mesh_dim_names=names)
        assert mesh.get_group() == dist.group.WORLD
        assert mesh.get_local_rank() == dist.get_rank()
        assert_group_works(mesh.get_group(0), list(range(size)))
    reverse = DeviceMesh("cpu", list(reversed(range(size))))
    assert tuple(reverse.get_coordinate() or ()) == (size - 1 - dist.get_rank(),)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_one_dimension(shared_pool, size: int) -> None:
    shared_pool(size).run(check_one_dimension)


@own_groups()
def check_dimensions(shape: tuple[int, ...]) -> None:
    """Every dimension's group, the collectives of all of them in flight at once."""
    names = ("pp", "dp", "tp")[: len(shape)]
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
    assert mesh.shape == shape
    for dimension in names:
        ranks = members(mesh, dimension)
        assert_group_works(mesh.get_group(dimension), ranks)
        assert_group_works(mesh[dimension].get_group(), ranks)
        assert mesh[dimension].get_local_rank() == ranks.index(dist.get_rank())
    assert [group.group_name for group in mesh.get_all_groups()] == [
        mesh.get_group(dimension).group_name for dimension in names
    ]
    tensors = {dimension: torch.full((5000,), float(dist.get_rank())) for dimension in names}
    works = [
        dist.all_reduce(tensor, group=mesh.get_group(dimension), async_op=True)
        for dimension, tensor in tensors.items()
    ]
    for work in reversed(works):
        work.wait()
    for dimension, tensor in tensors.items():
        expected = torch.full((5000,), float(sum(members(mesh, dimension))))
        assert_same(tensor, expected, dimension)


@pytest.mark.parametrize("shape", [(2, 1), (1, 3), (2, 2), (2, 2, 2)], ids=str)
def test_dimensions(shared_pool, shape: tuple[int, ...]) -> None:
    shared_pool(torch.Size(shape).numel()).run(check_dimensions, shape)


@own_groups()
def check_functional_on_mesh() -> None:
    """Collectives that take the mesh, or a mesh and a dimension, in place of a group."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    rank = dist.get_rank()
    value = torch.tensor([float(rank)])
    assert functional.all_reduce(value, "sum", (mesh, 0)).item() == sum(members(mesh, "dp"))
    assert functional.all_reduce(value, "sum", mesh["tp"]).item() == sum(members(mesh, "tp"))
    gathered = torch_features.all_gather_single(value, 0, (mesh, 1))
    assert_same(functional.wait_tensor(gathered), torch.tensor(members(mesh, "tp")).float(), "tp")


def test_functional_on_mesh(shared_pool) -> None:
    shared_pool(4).run(check_functional_on_mesh)


@own_groups()
def check_flatten() -> None:
    """(dp, tp) as one dimension of four, and (pp, dp) of a mesh of three dimensions."""
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
    rank = dist.get_rank()
    pipeline, data, tensor = mesh.get_coordinate()
    inner = mesh["dp", "tp"]._flatten("dp_tp")
    assert_group_works(inner.get_group(), [4 * pipeline + one for one in range(4)])
    outer = mesh["pp", "dp"]._flatten("stage")
    assert_group_works(mesh["stage"].get_group(), [tensor + 2 * one for one in range(4)])
    assert (inner.get_local_rank(), outer.get_local_rank()) == (rank % 4, rank // 2)
    both = mesh["pp", "tp"]
    assert tuple(both.get_coordinate() or ()) == (pipeline, tensor)
    assert_group_works(both.get_group("pp"), [one + 2 * data + tensor for one in (0, 4)])


def test_flatten(shared_pool) -> None:
    shared_pool(8).run(check_flatten)


@own_groups()
def check_part_of_world() -> None:
    """A mesh that leaves the last rank out, which takes part in making it only."""
    rank = dist.get_rank()
    mesh = DeviceMesh("cpu", [[0], [1]], mesh_dim_names=("dp", "tp"))
    if rank < 2:
        assert_group_works(mesh.get_group("dp"), [0, 1])
        assert_group_works(mesh.get_group("tp"), [rank])
    else:
        assert mesh.get_coordinate() is None


def test_part_of_world(shared_pool) -> None:
    shared_pool(3).run(check_part_of_world)


@own_groups()
def check_from_groups() -> None:
    """A mesh over groups that the program has made."""
    rank = dist.get_rank()
    columns = [dist.new_group([one, one + 2]) for one in (0, 1)]
    rows = [dist.new_group([one, one + 1]) for one in (0, 2)]
    mesh = DeviceMesh.from_group(
        [columns[rank % 2], rows[rank // 2]],
        "cpu",
        mesh=torch.arange(4).reshape(2, 2),
        mesh_dim_names=("dp", "tp"),
    )
    assert mesh.get_group("dp") is columns[rank % 2]
    assert_group_works(mesh["dp"].get_group(), members(mesh, "dp"))
    assert_group_works(mesh["tp"].get_group(), members(mesh, "tp"))


def test_from_groups(shared_pool) -> None:
    shared_pool(4).run(check_from_groups)


@own_groups()
def check_backends_by_dimension() -> None:
    """One dimension over gloo, the other over the default group's backend."""
    mesh = init_device_mesh(
        "cpu", (2, 2), mesh_dim_names=("dp", "tp"), backend_override={"dp": "gloo"}
    )
    assert dist.get_backend(mesh.get_group("dp")) == "gloo"
    total = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(total, group=mesh.get_group("dp"))
    assert total.item() == sum(members(mesh, "dp"))
    assert_group_works(mesh.get_group("tp"), members(mesh, "tp"))


@torch_features.needs_backends_of_meshes
def test_backends_by_dimension(shared_pool) -> None:
    shared_pool(4).run(check_backends_by_dimension)
