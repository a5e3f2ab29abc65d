# SPDX-License-Identifier: Apache-2.0
"""Every operation, called with the same values on any device: all devices have to give the same
result."""

from __future__ import annotations

import torch
import torch.distributed as dist


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
