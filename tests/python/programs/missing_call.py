# SPDX-License-Identifier: Apache-2.0
"""The last rank leaves out an all_reduce and does something long instead, until it is ended.

The others end when all have dumped, however slow the machine is: a launcher ends those that have not.
"""

from __future__ import annotations

import os
import threading
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

import rocecoll  # noqa: F401  registers the backend

dist.init_process_group("rocecoll", timeout=timedelta(seconds=200))
dist.broadcast(torch.zeros(3), 0)
dist.group.WORLD.set_timeout(timedelta(seconds=8))
last = dist.get_world_size() - 1
if dist.get_rank() == last:
    threading.Event().wait(300)
try:
    dist.all_reduce(torch.zeros(1000))
finally:
    prefix = os.environ["ROCECOLL_FLIGHT_RECORDER"]
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        if all(Path(f"{prefix}{rank}").exists() for rank in range(last + 1)):
            break
        time.sleep(0.05)
