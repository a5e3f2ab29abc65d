# SPDX-License-Identifier: Apache-2.0
"""The same all_reduce beside NCCL, where its version takes two ranks on one GPU."""

from __future__ import annotations

import torch
import torch.distributed as dist

from gpu_parts.rank import CannotRunError, Rank
from gpu_parts.timings import Peer, measure


def run(rank: Rank) -> None:
    if not dist.is_nccl_available():
        raise CannotRunError("this torch has no NCCL")
    rank.join()
    place = rank.device.torch
    try:
        group = dist.new_group(backend="nccl")
        tensor = rank.device.full(10, 1)
        dist.all_reduce(tensor, group=group)
        rank.device.synchronize()
    except dist.DistBackendError as error:
        words = next((line for line in str(error).splitlines() if "uplicate" in line), str(error))
        raise CannotRunError(f"NCCL refuses two ranks on one GPU: {words[-200:]}") from error
    rank.same(tensor, torch.full((10,), float(rank.size)), "NCCL's all_reduce")
    peers: dict[str, Peer] = {
        "rocecoll, CUDA": (lambda tensor: dist.all_reduce(tensor), place),
        "NCCL, CUDA": (lambda tensor: dist.all_reduce(tensor, group=group), place),
    }
    measure(rank, peers)
    dist.barrier()
    dist.destroy_process_group()
