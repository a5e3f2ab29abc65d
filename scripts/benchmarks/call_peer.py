# SPDX-License-Identifier: Apache-2.0
"""The time of a torch.distributed call alone, as a peer in scripts/bench: torch's backend that moves no data.

A module that is imported only for this registers it.
"""

from __future__ import annotations

import torch.distributed as dist
from torch.testing._internal.distributed import fake_pg  # noqa: F401

from rocecoll.bench.operations import Case
from rocecoll.bench.peers import TorchPeer

NAME, BACKEND = "torch-call", "fake"


class CallPeer(TorchPeer):
    """The lower bound for the calls of any backend."""

    moves_data = False

    def __init__(self) -> None:
        super().__init__(NAME)

    def supports(self, case: Case) -> bool:
        return True

    def new_group(self) -> dist.ProcessGroup:
        made: dist.ProcessGroup = dist.new_group(backend=BACKEND)
        return made
