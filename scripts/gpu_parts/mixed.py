# SPDX-License-Identifier: Apache-2.0
"""gloo for tensors of the CPU and rocecoll for those of the device, in one group; a bound device."""

from __future__ import annotations

import torch
import torch.distributed as dist

from gpu_parts.rank import Rank


def run(rank: Rank) -> None:
    rank.join(f"cpu:gloo,{rank.device.kind}:rocecoll", "mixed")
    for place in (torch.device("cpu"), rank.device.torch):
        calls(rank, place, dist.group.WORLD)
    got: list[object] = [None] * rank.size
    dist.all_gather_object(got, rank.number)
    rank.expect(got == list(range(rank.size)), "all_gather_object:", got)
    calls(rank, rank.device.torch, dist.new_group(list(range(rank.size))))
    dist.barrier()
    dist.destroy_process_group()
    if rank.device.is_cuda:
        bound(rank)


def calls(rank: Rank, place: torch.device, group: dist.ProcessGroup | None) -> None:
    total = rank.size * (rank.size + 1) / 2
    tensor = torch.full((1000,), rank.number + 1.0).to(place)
    dist.all_reduce(tensor, group=group)
    rank.same(tensor, torch.full((1000,), total), "all_reduce on", place)
    gathered = torch.empty(3 * rank.size).to(place)
    mine = torch.full((3,), float(rank.number)).to(place)
    dist.all_gather_into_tensor(gathered, mine, group=group)
    expected = torch.arange(float(rank.size)).repeat_interleave(3)
    rank.same(gathered, expected, "all_gather_into_tensor on", place)


def bound(rank: Rank) -> None:
    """torch then makes groups at once, and knows the device of a barrier."""
    rank.join(name="bound", device_id=rank.device.torch)
    calls(rank, rank.device.torch, dist.group.WORLD)
    dist.barrier(device_ids=[0])
    calls(rank, rank.device.torch, dist.split_group(split_ranks=[list(range(rank.size))]))
    dist.destroy_process_group()
