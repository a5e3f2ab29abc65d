# SPDX-License-Identifier: Apache-2.0
"""Ranks that come and go: reconfigure() makes the default group anew from the handles of its members.

No Store takes part, so none has to survive. The members make the new group beside the old one, and a
barrier in it shows that all are there and mean the same. Only then does the old group end; an attempt
that fails leaves it as it was. A rank that fails aborts the new group: those that had passed the barrier
before learn of it at their next call, and reconfigure again.
"""

from __future__ import annotations

import collections
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import BarrierOptions, HashStore
from torch.distributed import distributed_c10d

from rocecoll._c10d import Backend
from rocecoll.backend import MEMBERS, create_backend, handed_over, own_record
from rocecoll.rendezvous import handles as of_handles
from rocecoll.runtime import shared_runtime
from rocecoll.torch_hooks import backends_of

# Of attempts that this process remembers: enough for one a second in three hours.
_UUIDS_KEPT = 1 << 14
_NAME = "0"  # torch's name of the default group
_used: collections.OrderedDict[int, None] = collections.OrderedDict()


@dataclass(frozen=True)
class _Facts:
    """The part of torch's _DistributedBackendOptions that makes a backend."""

    store: Any
    group_rank: int
    group_size: int
    timeout: timedelta
    group_id: str
    global_ranks_in_group: list[int] = field(default_factory=list)


def handle_of(group: Any) -> str:
    backend = _backend(group)
    return of_handles.to_handle(own_record(backend.options))


def reconfigure(
    group: Any, uuid: int, handles: Collection[str], timeout: timedelta | None
) -> dist.ProcessGroup:
    old, backend = group or dist.group.WORLD, _backend(group)
    if type(uuid) is not int:
        raise TypeError(f"uuid must be an int, not {type(uuid).__name__}")
    members, rank = of_handles.members(uuid, handles, shared_runtime({}).process)
    if uuid in _used:
        raise ValueError(f"reconfigure: uuid {uuid} was already used; each attempt needs a new one")
    _used[uuid] = None
    if len(_used) > _UUIDS_KEPT:
        _used.popitem(last=False)
    store = HashStore()
    store.set(MEMBERS, of_handles.to_list(members))
    size, limit = len(members.records), timeout or backend.options._timeout
    config, bound = dist.get_backend_config(old), getattr(old, "bound_device_id", None)
    options, kept = backend.options, backend.options._timeout
    made = create_backend(_Facts(store, rank, size, limit, _NAME), options)
    try:
        _agree(made, limit)
        made._set_default_timeout(kept)
        del backend, old
        dist.destroy_process_group()
        with handed_over(made):
            dist.init_process_group(
                config,
                store=store,
                rank=rank,
                world_size=size,
                timeout=kept,
                pg_options=options,
                device_id=bound,
            )
    except BaseException:
        made.abort()  # members that have come further learn of it at their next call
        made.shutdown()
        raise
    return distributed_c10d._get_default_group()


def _agree(attempt: Any, limit: timedelta) -> None:
    """Returns once every member has come here."""
    options = BarrierOptions()
    options.timeout = limit
    attempt.barrier(options).wait()


def _backend(group: Any) -> Any:
    """Ours, of a group that can be reconfigured."""
    world = dist.group.WORLD
    if world is None:
        raise ValueError("reconfigure: init_process_group() has not been called")
    if group is not None and group is not world:
        raise NotImplementedError(
            "reconfigure: only the default group can be reconfigured; make other groups of the "
            "new one with new_group() or split_group()"
        )
    backends = backends_of(world)
    if not all(isinstance(one, Backend) for one in backends):
        raise ValueError(
            f"reconfigure: the group has the backends {dist.get_backend_config(world)}; all "
            "must be rocecoll"
        )
    return backends[0]
