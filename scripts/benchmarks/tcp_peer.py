# SPDX-License-Identifier: Apache-2.0
"""gloo over TCP under one of the kernel's congestion controls, several of them in the same processes."""

from __future__ import annotations

from datetime import timedelta

import torch.distributed as dist

from benchmarks.networks import set_congestion_control
from rocecoll.bench.peers import GIVE_UP_S, TorchPeer

BACKEND = "gloo"
SEPARATOR = "/"


def name_of(control: str) -> str:
    return f"{BACKEND}{SEPARATOR}{control}"


class TcpPeer(TorchPeer):
    """`name` is gloo/CONTROL. On a network it runs in the namespace of a host."""

    def new_group(self) -> dist.ProcessGroup:
        set_congestion_control(self.name.partition(SEPARATOR)[2])
        dist.barrier()  # the accepting end takes it over, too
        limit = timedelta(seconds=GIVE_UP_S)
        made: dist.ProcessGroup = dist.new_group(backend=BACKEND, timeout=limit)
        return made
