# SPDX-License-Identifier: Apache-2.0
"""The last rank calls the second all_reduce only once it is told so by a line."""

from __future__ import annotations

import sys
from datetime import timedelta

import torch
import torch.distributed as dist

import rocecoll  # noqa: F401  registers the backend

dist.init_process_group("rocecoll", timeout=timedelta(seconds=200))
dist.all_reduce(torch.ones(4))
if dist.get_rank() == dist.get_world_size() - 1:
    print("ready", flush=True)
    sys.stdin.readline()
dist.all_reduce(torch.ones(1000))
dist.destroy_process_group()
