# SPDX-License-Identifier: Apache-2.0
"""Ranks that come and go: reconfigure() makes the default group anew from the handles of its members.

No Store takes part, so none has to survive. The members make the new group beside the old one, and an
all_reduce in it shows that all are there and mean the same. Only then does the old group end; an attempt
that fails leaves it as it was. A rank that fails aborts the new group: those that had passed the
all_reduce before learn of it at their next call, and reconfigure again.

From torch 2.14 on the process group keeps its object and gets other ranks. Before that, a new process
group takes the place of the default one.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllreduceOptions, HashStore
from torch.distributed import distributed_c10d as c10d

from rocecoll import flight_recorder
from rocecoll._c10d import Backend, Options
from rocecoll.backend import handed_over, own_record, refuse_wrappers, remake_backend, running
from rocecoll.rendezvous import handles as of_handles
from rocecoll.torch_hooks import backends_of

# Of attempts that this process remembers: enough for one a second in three hours.
_UUIDS_KEPT = 1 << 14
_NAME = "0"  # torch's name of the default group
_ONLY_DEFAULT = (
    "reconfigure: only the default group can be reconfigured; make other groups of the new one with "
    "new_group() or split_group()"
)
_used: collections.OrderedDict[int, None] = collections.OrderedDict()
_taken_over = 0  # attempts of this process that have got as far as that
_takes_over = threading.Lock()


@dataclass(frozen=True)
class _Agreed:
    """A group whose members have all come."""

    backend: Backend
    store: HashStore
    rank: int
    size: int
    work: Any  # complete
    groups: int  # that the member with most has made so far


def handle_of(group: Any) -> str:
    return to_handle_of(_backend(group).options)


def to_handle_of(options: Options) -> str:
    return of_handles.to_handle(own_record(options))


def reconfigure(
    group: Any, uuid: int, handles: Collection[str], timeout: timedelta | None
) -> dist.ProcessGroup:
    backend = _backend(group)
    old: Any = dist.group.WORLD
    if hasattr(backend, "adopt"):  # from torch 2.14 on
        reconfigure_in_place(backend, uuid, handles, timeout)
        return c10d._get_default_group()
    config, bound = dist.get_backend_config(old), getattr(old, "bound_device_id", None)
    options, kept = backend.options, backend.options._timeout
    with _attempt(backend, uuid, handles, timeout) as made:
        made.backend._set_default_timeout(kept)
        del backend, old
        dist.destroy_process_group()
        with handed_over(made.backend):
            dist.init_process_group(
                config,
                store=made.store,
                rank=made.rank,
                world_size=made.size,
                timeout=kept,
                pg_options=options,
                device_id=bound,
            )
    return c10d._get_default_group()


def reconfigure_in_place(
    backend: Any, uuid: int, handles: Collection[str], timeout: timedelta | None
) -> Any:
    """c10d's Backend.reconfigure(), which calls it; returns the work in which all have come."""
    for group in c10d._world.pg_map:
        if group is not dist.group.WORLD and backend in backends_of(group):
            raise NotImplementedError(_ONLY_DEFAULT)
    with _attempt(backend, uuid, handles, timeout) as made:
        backend.adopt(made.backend)
    world: Any = dist.group.WORLD
    if world is not None and backend in backends_of(world):
        c10d._world.pg_group_ranks[world] = {rank: rank for rank in range(made.size)}
        # Groups that new_group() makes from now on need no Store either, and get the same names on
        # all members: torch counts the groups that a process makes.
        c10d._world.pg_map[world] = (c10d._world.pg_map[world][0], made.store)
        c10d._world.group_count = made.groups
    return made.work


@contextmanager
def _attempt(
    old: Backend, uuid: int, handles: Collection[str], timeout: timedelta | None
) -> Iterator[_Agreed]:
    """Makes the group, and takes it back if what is done with it inside fails."""
    if type(uuid) is not int:
        raise TypeError(f"uuid must be an int, not {type(uuid).__name__}")
    refuse_wrappers()
    members, rank = of_handles.members(uuid, handles, running().process)
    if uuid in _used:
        raise RuntimeError(
            f"reconfigure: uuid {uuid} was already used; each attempt needs a new one"
        )
    limit, before = old.options._timeout if timeout is None else timeout, _taken_over
    made, store = remake_backend(old, members, rank, _NAME, limit)
    _used[uuid] = None
    if len(_used) > _UUIDS_KEPT:
        _used.popitem(last=False)
    try:
        work, groups = _agree(made, limit)
        _take_over(before)
        yield _Agreed(made, store, rank, len(members.records), work, groups)
    except BaseException:
        made.abort()  # members that have come further learn of it at their next call
        made.shutdown()
        raise
    flight_recorder.rank_is(rank)


def _take_over(before: int) -> None:
    """Of attempts that run at once in this process, the first whose members have come wins."""
    global _taken_over
    with _takes_over:
        if _taken_over != before:
            raise RuntimeError(
                "reconfigure: another thread of this process has reconfigured the group meanwhile; "
                "make one attempt after the other"
            )
        _taken_over += 1


def _agree(attempt: Any, limit: timedelta) -> tuple[Any, int]:
    """Returns once every member has come here; the work, and the groups made by the one with most."""
    groups = torch.tensor([c10d._world.group_count], device="cpu")
    options = AllreduceOptions()
    options.reduceOp = dist.ReduceOp.MAX  # type: ignore[assignment]  # as torch itself does
    options.timeout = limit
    work = attempt.allreduce([groups], options)
    work.wait()
    return work, int(groups.item())


def _backend(group: Any) -> Any:
    """Ours, of a group that can be reconfigured."""
    world = dist.group.WORLD
    if world is None:
        raise ValueError("reconfigure: init_process_group() has not been called")
    if group is not None and group is not world:
        raise NotImplementedError(_ONLY_DEFAULT)
    backends = backends_of(world)
    if not all(isinstance(one, Backend) for one in backends):
        raise ValueError(
            f"reconfigure: the group has the backends {dist.get_backend_config(world)}; all "
            "must be rocecoll"
        )
    ours: Any = backends[0]
    ours._set_default_timeout(ours.options._timeout)  # raises in a process forked from the group's
    return ours
