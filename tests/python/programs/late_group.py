# SPDX-License-Identifier: Apache-2.0
"""Ranks 1 and 2 are to make a group; rank 2 does so when it is told by a line, or ends before.

Rank 1 says how its call ended, and tries once more.
"""

from __future__ import annotations

import signal
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

import rocecoll  # noqa: F401  registers the backend

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGUSR1, lambda number, frame: print("handled", flush=True))
dist.init_process_group("rocecoll", timeout=timedelta(seconds=200))
rank = dist.get_rank()
dist.barrier()
print("ready", flush=True)
if rank == 2 and sys.stdin.readline() != "go\n":
    sys.exit()
try:
    group = dist.new_group([1, 2])
    tensor = torch.ones(1)
    if rank > 0:
        dist.all_reduce(tensor, group=group)
    print(f"sum {tensor.item()}", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
except RuntimeError as error:
    print(f"failed: {error}", flush=True)
sys.stdin.readline()
