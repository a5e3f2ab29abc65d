# SPDX-License-Identifier: Apache-2.0
"""Another stream is captured while operations are under way: whoever asks for their events must not end it."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist

from gpu_parts.rank import Rank

COUNT = 1 << 20
MOST_KERNELS = 1_000_000  # float32 counts them
CAPTURE_S = 0.5  # long enough for rocecoll's threads to look at the device
KERNEL_S = 1.0


def capture(graph: torch.cuda.CUDAGraph, counter: torch.Tensor) -> int:
    """How many additions are in it. torch.cuda.graph would first wait for all that is under way."""
    end, captured = time.monotonic() + CAPTURE_S, 0
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin()
        try:
            while time.monotonic() < end and captured < MOST_KERNELS:
                counter.add_(1)
                captured += 1
        finally:
            graph.capture_end()
    return captured


def run(rank: Rank) -> None:
    rank.join()
    tensor, counter = rank.device.full(COUNT, 1), rank.device.full(COUNT, 0)
    dist.all_reduce(rank.device.full(COUNT, 1))
    rank.device.busy(0.01)
    rank.device.synchronize()
    dist.barrier()
    rank.device.busy(KERNEL_S)
    tensor.add_(rank.number)
    work = dist.all_reduce(tensor, async_op=True)
    graph = torch.cuda.CUDAGraph()
    try:
        captured = capture(graph, counter)
        graph.replay()
        rank.device.synchronize()
        rank.same(counter, torch.full((COUNT,), float(captured)), "what was captured")
    except Exception as error:
        rank.fail("the capture:", type(error).__name__, str(error)[:300])
    work.wait()
    expected = torch.full((COUNT,), rank.size * (rank.size + 1) / 2)
    rank.same(tensor, expected, "the operation under way")
    dist.barrier()
    dist.destroy_process_group()
