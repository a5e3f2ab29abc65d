# SPDX-License-Identifier: Apache-2.0
"""Dispatch modes of a thread that waits, as FlopCounterMode and selective checkpointing are, see operators of
that thread's program, not copies that rocecoll makes meanwhile."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from gpu_parts.rank import Rank

COUNT = 1_000_000


class Witness(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def run(rank: Rank) -> None:
    rank.join()
    for kind in ("dense", "strided"):
        base = rank.device.put(torch.ones(COUNT, 2))
        tensor = base[:, 1] if kind == "strided" else base
        work = dist.all_reduce(tensor, async_op=True)
        with Witness() as witness:
            work.wait()
        seen = sorted(set(witness.seen))
        rank.expect(
            not seen, f"a mode saw {len(witness.seen)} operators, of a {kind} tensor:", seen
        )
    dist.barrier()
    dist.destroy_process_group()
