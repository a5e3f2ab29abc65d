# SPDX-License-Identifier: Apache-2.0
"""Finds its place with rocecoll.init() and says what came of it."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

import rocecoll

place = rocecoll.init()
total = torch.tensor([float(place.rank)])
dist.all_reduce(total)
# One write, so that lines of different ranks do not mix.
found = f"{place.launcher}: rank {dist.get_rank()} of {dist.get_world_size()}"
os.write(1, f"{found}, local {place.local_rank}, sum {total.item():g}\n".encode())
dist.destroy_process_group()
