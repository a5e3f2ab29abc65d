# SPDX-License-Identifier: Apache-2.0
"""Every operation on an accelerator's tensors gives what it gives on the CPU's."""

from __future__ import annotations

from collections.abc import Callable

import fake_device
import pytest
import torch
import torch.distributed as dist
from exact import assert_same
from harness import Pool

pytestmark = pytest.mark.timeout(1800)  # the first one may build the fake accelerator

DevicePool = Callable[[int], Pool]
LARGE = 1_500_000  # elements: a dozen lanes of float32


class Maker:
    """Tensors with the same small integers on any device; remembers those that are results."""

    def __init__(self, device: torch.device, dtype: torch.dtype, strided: bool) -> None:
        self.device, self.dtype, self.strided = device, dtype, strided
        self.results: list[torch.Tensor] = []
        self.made = dist.get_rank()

    def __call__(self, *shape: int) -> torch.Tensor:
        self.made += 3
        count = torch.Size(shape).numel()
        values = (torch.arange(count) % 7 + self.made % 5).reshape(shape)
        values = values % 2 == 0 if self.dtype == torch.bool else values.to(self.dtype)
        if not self.strided:
            return values.to(self.device)
        base = torch.stack([values, values], dim=-1).to(self.device)
        return base[..., 1]

    def result(self, *shape: int) -> torch.Tensor:
        self.results.append(self(*shape))
        return self.results[-1]

    def list(self, count: int, elements: int) -> list[torch.Tensor]:
        return [self(elements) for _ in range(count)]

    def result_list(self, count: int, elements: int) -> list[torch.Tensor]:
        return [self.result(elements) for _ in range(count)]


def all_reduce(make: Maker, count: int) -> None:
    dist.all_reduce(make.result(count))


def broadcast(make: Maker, count: int) -> None:
    dist.broadcast(make.result(count), dist.get_world_size() - 1)


def reduce(make: Maker, count: int) -> None:
    tensor = make(count)
    dist.reduce(tensor, 0)
    if dist.get_rank() == 0:
        make.results.append(tensor)


def all_gather(make: Maker, count: int) -> None:
    dist.all_gather(make.result_list(dist.get_world_size(), count), make(count))


def all_gather_into_tensor(make: Maker, count: int) -> None:
    dist.all_gather_into_tensor(make.result(dist.get_world_size() * count), make(count))


def reduce_scatter(make: Maker, count: int) -> None:
    dist.reduce_scatter(make.result(count), make.list(dist.get_world_size(), count))


def reduce_scatter_tensor(make: Maker, count: int) -> None:
    dist.reduce_scatter_tensor(make.result(count), make(dist.get_world_size() * count))


def gather(make: Maker, count: int) -> None:
    is_root = dist.get_rank() == 0
    outputs = make.result_list(dist.get_world_size(), count) if is_root else None
    dist.gather(make(count), outputs, 0)


def scatter(make: Maker, count: int) -> None:
    inputs = make.list(dist.get_world_size(), count) if dist.get_rank() == 0 else None
    dist.scatter(make.result(count), inputs, 0)


def all_to_all(make: Maker, count: int) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    inputs = [make(count + rank + peer) for peer in range(size)]
    dist.all_to_all([make.result(count + rank + peer) for peer in range(size)], inputs)


def all_to_all_single(make: Maker, count: int) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    splits = [count + rank + peer for peer in range(size)]
    total = sum(splits)
    dist.all_to_all_single(make.result(total), make(total), splits, splits)


def all_reduce_of_a_list(make: Maker, count: int) -> None:
    dist.group.WORLD.allreduce(make.result_list(3, count)).wait()


def all_reduce_of_the_same_twice(make: Maker, count: int) -> None:
    tensor = make.result(count)
    dist.all_reduce_coalesced([tensor, tensor])


def broadcast_of_a_list(make: Maker, count: int) -> None:
    options = dist.BroadcastOptions()
    options.rootRank, options.rootTensor = dist.get_world_size() - 1, 1
    dist.group.WORLD.broadcast(make.result_list(3, count), options).wait()


def all_gather_of_a_list(make: Maker, count: int) -> None:
    outputs = [make.result_list(2 * dist.get_world_size(), count) for _ in range(2)]
    dist.group.WORLD.allgather(outputs, make.list(2, count)).wait()


def send_recv(make: Maker, count: int) -> None:
    """Around the ring, in one batch."""
    rank, size = dist.get_rank(), dist.get_world_size()
    if size == 1:
        return
    operations = [
        dist.P2POp(dist.isend, make(count), (rank + 1) % size),
        dist.P2POp(dist.irecv, make.result(count), (rank - 1) % size),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()


def one_message(make: Maker, count: int) -> None:
    if dist.get_world_size() == 1:
        return
    if dist.get_rank() == 0:
        dist.send(make(count), 1)
    elif dist.get_rank() == 1:
        dist.recv(make.result(count), 0)


OPERATIONS = {
    function.__name__: function
    for function in (
        all_reduce,
        broadcast,
        reduce,
        all_gather,
        all_gather_into_tensor,
        reduce_scatter,
        reduce_scatter_tensor,
        gather,
        scatter,
        all_to_all,
        all_to_all_single,
        all_reduce_of_a_list,
        all_reduce_of_the_same_twice,
        broadcast_of_a_list,
        all_gather_of_a_list,
        send_recv,
        one_message,
    )
}


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
