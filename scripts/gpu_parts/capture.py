# SPDX-License-Identifier: Apache-2.0
"""A call inside a capture of a CUDA graph: rocecoll's work is no kernel, so it is refused, and nothing is lost."""

from __future__ import annotations

import torch
import torch.distributed as dist

from gpu_parts.rank import Rank

COUNT = 1 << 20


def run(rank: Rank) -> None:
    rank.join()
    tensor = rank.device.full(COUNT, 1)
    dist.all_reduce(tensor)
    rank.device.synchronize()
    dist.barrier()
    error = captured_call(tensor)
    if rank.expect(error is not None, "a call inside a capture was not refused"):
        rank.tell("words", f"{type(error).__name__}: {str(error).splitlines()[0][:300]}")
        rank.expect("captur" in str(error), "the error does not speak of the capture:", error)
    rank.device.synchronize()
    dist.barrier()
    again = rank.device.full(COUNT, rank.number + 1)
    dist.all_reduce(again)
    expected = torch.full((COUNT,), rank.size * (rank.size + 1) / 2)
    rank.same(again, expected, "after the refused call")
    dist.destroy_process_group()


def captured_call(tensor: torch.Tensor) -> Exception | None:
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            tensor.add_(1)
            dist.all_reduce(tensor)
    except Exception as error:
        return error
    return None
