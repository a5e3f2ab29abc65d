# SPDX-License-Identifier: Apache-2.0
"""rocecoll's engine without torch, as a peer in scripts/bench: shows what torch.distributed costs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from rocecoll import _core as core
from rocecoll import environment, options
from rocecoll.bench.buffers import ROOT, Buffers
from rocecoll.bench.operations import Case, Operation, Place
from rocecoll.bench.peers import GIVE_UP_S
from rocecoll.host.interfaces import choose_address

NAME = "core"


def hosts_of_ranks() -> list[int]:
    """By rank, the number of its host."""
    on_a_host = int(os.environ["LOCAL_WORLD_SIZE"])
    return [rank // on_a_host for rank in range(dist.get_world_size())]


def memory(tensor: torch.Tensor) -> Any:
    """The tensor's bytes, as numpy does not have all types."""
    return tensor.view(torch.uint8).numpy()


class CorePeer:
    """Has a runtime of its own, set up as with torch; ranks of one host use loopback, as there."""

    name = NAME
    moves_data = True

    def __init__(self) -> None:
        settings = options.resolve()
        interface, family = settings["socket_ifname"], settings["socket_family"]
        host = choose_address(interface, family, environment.master_address())
        local_ranks = int(os.environ["LOCAL_WORLD_SIZE"])
        self.runtime = core.Runtime(options.runtime_settings(settings, host, local_ranks))
        self.group: core.Group | None = None
        self.groups = 0

    def supports(self, case: Case) -> bool:
        return True

    def open(self) -> None:
        if self.group is not None:
            return
        rank, everybody = dist.get_rank(), [""] * dist.get_world_size()
        dist.all_gather_object(everybody, self.runtime.address)
        hosts = hosts_of_ranks()
        for number, host in enumerate(hosts):
            if host == hosts[rank]:
                everybody[number] = f"127.0.0.1:{everybody[number].rpartition(':')[2]}"
        self.groups += 1
        key = f"bench {self.groups:10d}".encode()
        self.group = core.Group(self.runtime, NAME, key, rank, everybody, GIVE_UP_S, hosts=hosts)

    def drop(self) -> None:
        self.group = None

    def close(self) -> None:
        self.group = None
        self.runtime.shutdown()

    def call(self, buffers: Buffers) -> Callable[[], None]:
        case, group = buffers.case, self.group
        kind, reduction = case.data_type.value, case.reduction.value.upper()
        reduction = {"PROD": "PRODUCT"}.get(reduction, reduction)
        mine, result = memory(buffers.input), memory(buffers.output)
        next_rank = (buffers.rank + 1) % buffers.ranks
        last_rank = (buffers.rank - 1) % buffers.ranks
        # By position, as names are looked up in each call: the group's timeout, any algorithm, and not
        # asynchronous, so that the call returns when it is complete.
        how = (0.0, "", False)
        elsewhere = None if case.place is Place.in_place else result
        is_root = buffers.rank == ROOT
        calls: dict[Operation, tuple[Any, ...]] = {
            Operation.all_reduce: ("all_reduce", mine, kind, reduction, elsewhere, 1.0),
            Operation.reduce: ("reduce", mine, kind, ROOT, reduction, None, 1.0),
            Operation.broadcast: ("broadcast", mine, kind, ROOT),
            Operation.all_gather: ("all_gather", mine, result, kind, None),
            Operation.reduce_scatter: ("reduce_scatter", mine, result, kind, reduction, None, 1.0),
            Operation.all_to_all: ("all_to_all", mine, result, kind, None, None),
            Operation.gather: ("gather", mine, result if is_root else None, kind, ROOT),
            Operation.scatter: ("scatter", mine if is_root else None, result, kind, ROOT),
            Operation.send_recv: ("recv", result, kind, last_rank, 0),
            Operation.barrier: ("barrier",),
        }
        name, *arguments = calls[case.operation]
        call: Callable[..., None] = getattr(group, name)

        def run() -> None:
            call(*arguments, *how)

        def send_recv() -> None:
            assert group is not None
            sent = group.send(mine, kind, next_rank)
            run()
            sent.wait(GIVE_UP_S)

        return send_recv if case.operation is Operation.send_recv else run
