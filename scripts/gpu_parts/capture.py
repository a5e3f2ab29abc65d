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
        refusals = [words for words in said(error) if "rocecoll" in words and "captur" in words]
        rank.tell("words", " / ".join(words[:300] for words in refusals))
        rank.expect(bool(refusals), "rocecoll says nothing of the capture:", *said(error))
    rank.device.synchronize()
    dist.barrier()
    again = rank.device.full(COUNT, rank.number + 1)
    dist.all_reduce(again)
    expected = torch.full((COUNT,), rank.size * (rank.size + 1) / 2)
    rank.same(again, expected, "after the refused call")
    dist.destroy_process_group()


def said(error: BaseException | None) -> list[str]:
    """By it, and by those during whose handling it came: a capture that ends early has words, too."""
    words = []
    while error is not None:
        words.append(f"{type(error).__name__}: {error}")
        error = error.__context__
    return words


def captured_call(tensor: torch.Tensor) -> Exception | None:
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            tensor.add_(1)
            dist.all_reduce(tensor)
    except Exception as error:
        return error
    return None
