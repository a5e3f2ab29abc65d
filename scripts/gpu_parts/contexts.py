# SPDX-License-Identifier: Apache-2.0
"""A process has a CUDA context, some hundred MiB of the GPU, where its program works and nowhere else."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

from gpu_parts.device import Device
from gpu_parts.machine import smi
from gpu_parts.rank import Rank


def run(rank: Rank) -> None:
    devices = torch.cuda.device_count()
    rank.device = Device("cuda", rank.number % devices)
    rank.join()
    for count in (1, 1_000_000):
        dist.all_reduce(rank.device.full(count, 1))
    dist.barrier()
    rank.device.synchronize()
    # The runtime's own answer, that needs no name of the process on the host.
    places = [index for index in range(devices) if torch._C._cuda_hasPrimaryContext(index)]
    rank.tell("GPUs", devices)
    rank.tell("contexts", len(places))
    own = [rank.device.torch.index]
    rank.expect(places == own, f"contexts on GPUs {places}, not on {own} alone")
    if rank.number == 0:
        lines = smi("--query-compute-apps=pid,used_memory").split("; ")
        mine = [line for line in lines if line.split(",")[0].strip() == str(os.getpid())]
        rank.tell("nvidia-smi", "; ".join(mine) or "does not show this process")
        rank.expect(len(mine) <= 1, "nvidia-smi shows more than one context:", mine)
    dist.barrier()
    dist.destroy_process_group()
