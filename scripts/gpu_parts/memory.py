# SPDX-License-Identifier: Apache-2.0
"""How much pinned and device memory operations take, and that nothing grows with their number."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

from gpu_parts.rank import Rank

MIB = 1 << 20
LARGE_BYTES, SMALL_BYTES = 1024 * MIB, 4 * MIB
REPEATED, SMALL_REPEATED, SETTLED = 3000, 200, 100
ROOM_BYTES = 64 * MIB  # what the allocators of a process may take meanwhile
STAGING_BYTES = 64 * MIB  # of pinned memory, by default


def run(rank: Rank) -> None:
    rank.join()
    dist.all_reduce(rank.device.full(10, 1))
    rank.device.synchronize()
    device_memory(rank, "before")
    total = SMALL_BYTES if rank.small else LARGE_BYTES
    pinned_by_large(rank, total)
    repeated(rank)
    device_memory(rank, "after")
    dist.barrier()
    dist.destroy_process_group()


def pinned_by_large(rank: Rank, total: int) -> None:
    whole, share = rank.device.full(total // 4, 1), rank.device.full(total // 4 // rank.size, 1)
    size = f"{total // MIB} MiB"
    pinned_by(rank, f"all_reduce of {size}", lambda: dist.all_reduce(whole))
    pinned_by(
        rank,
        f"all_gather of {size} in all",
        lambda: dist.all_gather_into_tensor(whole, share),
    )


def pinned(rank: Rank, what: str) -> int | None:
    """Of the allocator of pinned memory, if this torch counts it."""
    if not rank.device.is_cuda or not hasattr(torch.cuda, "host_memory_stats"):
        return None
    return torch.cuda.host_memory_stats().get(what)


def pinned_by(rank: Rank, name: str, call: Callable[[], object]) -> None:
    rank.device.synchronize()
    if pinned(rank, "active_bytes.peak") is not None:
        torch.cuda.reset_peak_host_memory_stats()
    call()
    rank.device.synchronize()
    in_use, kept = pinned(rank, "active_bytes.peak"), pinned(rank, "allocated_bytes.current")
    if in_use is None or kept is None:
        rank.tell(f"pinned by {name}", "not counted here")
        return
    rank.tell(f"pinned by {name}", f"{in_use / MIB:.0f} MiB, {kept / MIB:.0f} MiB kept afterwards")
    rank.expect(in_use <= STAGING_BYTES + MIB, f"{name} had {in_use / MIB:.0f} MiB pinned")


def resident() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def device_memory(rank: Rank, when: str) -> None:
    if not rank.device.is_cuda:
        return
    free, total = torch.cuda.mem_get_info()
    ours = torch.cuda.memory_allocated() / MIB
    rank.tell(
        f"device memory {when}",
        f"{ours:.1f} MiB of tensors, {(total - free) / MIB:.0f} MiB of the GPU in use by all",
    )


def repeated(rank: Rank) -> None:
    """Neither the process nor the allocators grow."""
    tensor = rank.device.full(50_000, 0)

    def calls(times: int) -> tuple[int, int, int]:
        for _ in range(times):
            dist.all_reduce(tensor)
        rank.device.synchronize()
        gc.collect()
        on_device = torch.cuda.memory_allocated() if rank.device.is_cuda else 0
        return resident(), on_device, pinned(rank, "allocated_bytes.current") or 0

    before = calls(SETTLED)
    times = SMALL_REPEATED if rank.small else REPEATED
    after = calls(times)
    grown = [(last - first) / MIB for first, last in zip(before, after, strict=True)]
    rank.tell(
        f"grown in {times} operations",
        f"process {grown[0]:.1f}, device {grown[1]:.1f}, pinned {grown[2]:.1f} MiB",
    )
    if rank.device.kind != "fake":  # whose own allocator grows, as it keeps what was freed
        rank.expect(grown[0] * MIB < ROOM_BYTES, f"the process has grown by {grown[0]:.0f} MiB")
    rank.expect(grown[1] <= 0, f"tensors of {grown[1]:.1f} MiB of the device are left")
    rank.expect(grown[2] * MIB < ROOM_BYTES, f"{grown[2]:.0f} MiB more are pinned")
