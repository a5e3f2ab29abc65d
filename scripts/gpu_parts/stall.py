# SPDX-License-Identifier: Apache-2.0
"""Rank 0 is behind a kernel for longer than the peer timeout, and one of its threads in synchronize: it
lives, and nobody may call it lost."""

from __future__ import annotations

import threading
import time

import torch
import torch.distributed as dist

from gpu_parts.rank import Rank

COUNT = 1_000_000
KERNEL_S = 9.0  # three of the peer timeouts that the list of parts gives it
END_S = 30.0


def run(rank: Rank) -> None:
    rank.join()
    device = rank.device
    for _ in range(2):
        dist.all_reduce(device.full(COUNT, 1))
    device.busy(0.01)  # measures the kernel the first time
    device.synchronize()
    dist.barrier()
    tensor = device.full(COUNT, 1)
    begin = time.monotonic()
    waiting = threading.Thread(target=device.synchronize, daemon=True)
    if rank.number == 0:
        device.busy(KERNEL_S)
    device.add(tensor, rank.number)
    work = dist.all_reduce(tensor, async_op=True)
    if rank.number == 0:
        waiting.start()
    work.wait()
    rank.same(tensor, torch.full((COUNT,), rank.size * (rank.size + 1) / 2), "after the kernel")
    rank.tell("waited", f"{time.monotonic() - begin:.1f} s")
    if rank.number == 0:
        waiting.join(END_S)
        rank.expect(not waiting.is_alive(), f"synchronize has not returned {END_S:g} s later")
    dist.barrier()
    dist.destroy_process_group()
