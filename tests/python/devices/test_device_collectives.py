# SPDX-License-Identifier: Apache-2.0
"""Every operation on an accelerator's tensors gives what it gives on the CPU's."""

from __future__ import annotations

from collections.abc import Callable

import fake_device
import pytest
import torch
import torch.distributed as dist
from device_operations import OPERATIONS, Maker
from exact import assert_same
from harness import Pool

pytestmark = pytest.mark.timeout(1800)  # the first one may build the fake accelerator

DevicePool = Callable[[int], Pool]
LARGE = 1_500_000  # elements: a dozen lanes of float32


def compare(name: str, count: int, dtype: torch.dtype, strided: bool = False) -> None:
    device = fake_device.accelerator()
    ours = Maker(device, dtype, strided)
    OPERATIONS[name](ours, count)
    expected = Maker(torch.device("cpu"), dtype, strided)
    OPERATIONS[name](expected, count)
    for result, other in zip(ours.results, expected.results, strict=True):
        assert result.device == device
        assert_same(result.cpu(), other, (name, count, dtype, strided))
    fake_device.settle(device)


def check_sizes(name: str) -> None:
    for count in (0, 1, 1000, LARGE):
        compare(name, count, torch.float32)


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("name", OPERATIONS)
def test_sizes(device_pool: DevicePool, name: str, ranks: int) -> None:
    device_pool(ranks).run(check_sizes, name)


def check_types(name: str) -> None:
    moves = (torch.bool, torch.uint8, torch.complex64)
    dtypes = (torch.bfloat16, torch.float16, torch.int64)
    for dtype in dtypes if "reduce" in name else dtypes + moves:
        compare(name, 777, dtype)


@pytest.mark.parametrize("name", OPERATIONS)
def test_types(device_pool: DevicePool, name: str) -> None:
    device_pool(3).run(check_types, name)


def check_strided(name: str) -> None:
    for count in (1, 300_000):
        compare(name, count, torch.float32, strided=True)


@pytest.mark.parametrize("name", OPERATIONS)
def test_strided(device_pool: DevicePool, name: str) -> None:
    device_pool(3).run(check_strided, name)


def check_in_place() -> None:
    """The input is the rank's own part of the output, or the other way round."""
    device = fake_device.accelerator()
    rank, size = dist.get_rank(), dist.get_world_size()
    for count in (1, 400_000):
        output = torch.zeros(size * count, device=device)
        mine = output[rank * count : (rank + 1) * count]
        mine.fill_(rank + 1)
        dist.all_gather_into_tensor(output, mine)
        expected = torch.arange(1.0, size + 1).repeat_interleave(count)
        assert_same(output.cpu(), expected, ("all_gather_into_tensor", count))
        data = torch.arange(float(size * count))
        on_device = data.to(device)
        mine = on_device[rank * count : (rank + 1) * count]
        dist.reduce_scatter_tensor(mine, on_device)
        expected = data[rank * count : (rank + 1) * count] * size
        assert_same(mine.cpu(), expected, ("reduce_scatter_tensor", count))
    fake_device.settle(device)


def test_in_place(device_pool: DevicePool) -> None:
    device_pool(3).run(check_in_place)


def check_every_device_of_the_type() -> None:
    device = fake_device.accelerator()
    for index in range(torch.accelerator.device_count()):
        tensor = torch.ones(1000, device=torch.device(device.type, index))
        dist.all_reduce(tensor)
        assert_same(tensor.cpu(), torch.full((1000,), float(dist.get_world_size())), index)


def test_every_device_of_the_type(device_pool: DevicePool) -> None:
    device_pool(3).run(check_every_device_of_the_type)


def check_named_by_device() -> None:
    device = fake_device.accelerator()
    group = dist.new_group(backend=f"cpu:rocecoll,{device.type}:rocecoll")
    for place in (device, torch.device("cpu")):
        tensor = torch.ones(5, device=place)
        dist.all_reduce(tensor, group=group)
        assert_same(tensor.cpu(), torch.full((5,), float(dist.get_world_size())), place)
    dist.barrier(group, device_ids=[0])
    dist.destroy_process_group(group)


def test_named_by_device(device_pool: DevicePool) -> None:
    device_pool(3).run(check_named_by_device)


def check_refusals() -> None:
    """Before anything is sent: the group works afterwards."""
    device = fake_device.accelerator()
    size = dist.get_world_size()
    mixed = [torch.zeros(3) for _ in range(size)]
    with pytest.raises(RuntimeError, match=r"same device, got .*:0 and cpu"):
        dist.all_gather(mixed, torch.zeros(3, device=device))
    if torch.accelerator.device_count() > 1:
        other = torch.device(device.type, 1)
        with pytest.raises(RuntimeError, match=r"same device, got .*:0 and .*:1"):
            dist.all_gather_into_tensor(
                torch.zeros(3 * size, device=other), torch.zeros(3, device=device)
            )
    with pytest.raises(RuntimeError, match="invalid tensor size"):
        dist.all_gather_into_tensor(torch.zeros(2, device=device), torch.zeros(3, device=device))
    compare("all_reduce", 5, torch.float32)


def test_refusals(device_pool: DevicePool) -> None:
    device_pool(3).run(check_refusals)
