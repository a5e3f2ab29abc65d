# SPDX-License-Identifier: Apache-2.0
"""Makes the backend of one process group: options, runtime, rendezvous."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch.distributed
from torch._C._distributed_c10d import HashStore
from torch.distributed import distributed_c10d as c10d

import rocecoll
from rocecoll import environment, notes, options
from rocecoll.host.interfaces import choose_interface
from rocecoll.logs import announcements, debug_output
from rocecoll.rendezvous.handles import Members, from_list, to_list
from rocecoll.rendezvous.meeting import (
    Meeting,
    meet,
    met,
    root_of,
    store_of_members,
    summary,
    tell_failure,
)
from rocecoll.rendezvous.records import Record, make_record, roce_ranks, roce_summary, to_text
from rocecoll.runtime import shared_runtime, warn_of_ignored

if TYPE_CHECKING:
    from rocecoll._c10d import Backend, Member, Options, Runtime
    from rocecoll.options import Settings

_agreed: ContextVar[Backend | None] = ContextVar("rocecoll_agreed", default=None)
MEMBERS = "rocecoll/members"  # the key in the Store of a group that was reconfigured


def create_backend(group: Any, pg_options: Options | None) -> Backend:
    """torch calls it for init_process_group("rocecoll") and new_group(backend="rocecoll").

    `group` is torch's _DistributedBackendOptions: store, group_rank, group_size, timeout, group_id
    and global_ranks_in_group (empty for the world).
    """
    from rocecoll._c10d import make_backend, require_room_for_a_group

    if (agreed := _agreed.get()) is not None:
        return agreed
    # From torch 2.14 on. Such a group connects to nobody before it is reconfigured.
    alone = getattr(group, "enable_reconfigure", False)
    if alone:
        refuse_wrappers()
    store = store_of_members(group)
    try:
        require_room_for_a_group()
        chosen, settings, runtime = _start(group, pg_options)
    except Exception as error:
        tell_failure(store, group.group_rank, group.group_size, error)
        raise
    settings |= runtime.settings  # the process may have had a group before, with other ones
    rank, ranks = (0, 1) if alone else (group.group_rank, group.group_size)
    own = _record(rank, ranks, settings, runtime)
    if alone:
        name = group.group_id
        meeting = met((own,), own, name, [to_text(own).encode()])
    else:
        name, meeting = _meeting(group, store, own)
        _announce(meeting, own, name, settings)
    backend = make_backend(
        runtime=runtime,
        name=name,
        key=meeting.key,
        rank=rank,
        members=_members(meeting, options.shares_memory(settings)),
        global_ranks=list(group.global_ranks_in_group),
        timeout=group.timeout,
        algorithms=settings["algorithm"],
        options=chosen,
    )
    if alone:
        backend.await_members(group.group_rank, group.group_size)
    return backend


def refuse_wrappers() -> None:
    """torch's wrapper asks a gloo group before each call, and that one keeps its ranks."""
    if c10d.get_debug_level() == c10d.DebugLevel.DETAIL:
        raise ValueError(
            "reconfigure: with TORCH_DISTRIBUTED_DEBUG=DETAIL torch adds a gloo group to each "
            "group, which cannot get other ranks: set it to INFO"
        )


def remake_backend(
    old: Backend, members: Members, rank: int, group_id: str, timeout: timedelta
) -> tuple[Backend, HashStore]:
    """A group of these members with the settings of `old`, and the Store in which its parts find them."""
    store = HashStore()
    store.set(MEMBERS, to_list(members))
    settings, name = running().settings, f"{group_id}:{members.uuid}"
    own = members.records[rank]
    meeting = _meeting_of_members(store, members, own, name, [])
    debug_output.configure(None, rank)
    _announce(meeting, own, name, settings)
    made = old.remade(
        name=name,
        key=meeting.key,
        rank=rank,
        members=_members(meeting, options.shares_memory(settings)),
        timeout=timeout,
    )
    return made, store


def _announce(meeting: Meeting, own: Record, name: str, settings: Settings) -> None:
    """On rank 0: the others know the same."""
    if own.rank != 0:
        return
    line = summary(meeting, name, options.carriers(settings))
    if told := roce_summary(meeting.records, options.shares_memory(settings)):
        line += f"; {told}"
    notes.log(logging.INFO, line)


@contextmanager
def handed_over(backend: Backend) -> Iterator[None]:
    """Inside, torch gets this backend for the group that it makes: its members have met already."""
    token = _agreed.set(backend)
    try:
        yield
    finally:
        _agreed.reset(token)


def _meeting(group: Any, store: Any, own: Record) -> tuple[str, Meeting]:
    """The group's name in messages, and its ranks."""
    members = known_members(group.store)
    if members is None:
        name = group.group_id
        return name, meet(store, own, name, group.timeout, group.global_ranks_in_group)
    name = f"{group.group_id}:{members.uuid}"
    return name, _meeting_of_members(store, members, own, name, group.global_ranks_in_group)


def running() -> Runtime:
    """The runtime that the groups of this process use."""
    runtime = shared_runtime({})
    if not runtime.settings:  # made just now, for no group
        raise RuntimeError(
            "reconfigure: every group of this process was shut down; call destroy_process_group() "
            "and init_process_group() first"
        )
    return runtime


def own_record(chosen: Options) -> Record:
    """What this process tells of itself in a handle, while it has a group; with no rank yet."""
    runtime = running()
    return _record(0, 0, options.resolve(chosen.values) | runtime.settings, runtime)


def _record(rank: int, ranks: int, settings: Settings, runtime: Runtime) -> Record:
    return make_record(
        rank=rank,
        ranks=ranks,
        address=runtime.address,
        process=runtime.process,
        agreed=options.agreed(settings),
        version=rocecoll.__version__,
        roce_port=runtime.roce_port,
        roce_problem=runtime.roce_problem,
    )


def known_members(store: Any) -> Members | None:
    """Of a group that was reconfigured, or a part of one: nobody else looks into its Store."""
    root = root_of(store)
    if not isinstance(root, HashStore) or not root.check([MEMBERS]):
        return None
    return from_list(root.get(MEMBERS))


def _meeting_of_members(
    store: Any, members: Members, own: Record, name: str, global_ranks: Sequence[int]
) -> Meeting:
    """No meeting is needed. Groups of the same ranks and name are told apart by counting them."""
    ranks = list(global_ranks) or range(len(members.records))
    records = members.of(ranks)
    turn = store.add(f"rocecoll/turns/{name}", 1)
    agreed = json.dumps(own.options, sort_keys=True)  # ranks that differ in it do not meet
    told = [str(turn), agreed, *(to_text(record) for record in records)]
    return met(records, records[own.rank], name, [text.encode() for text in told])


def _members(meeting: Meeting, share_memory: bool) -> list[Member]:
    """The ranks of the group, in their order."""
    from rocecoll._c10d import Member

    usable = roce_ranks(meeting.records, share_memory)
    return [
        Member(
            address=address, process=record.process, roce=roce, known_as=record.address, host=host
        )
        for record, address, host, roce in zip(
            meeting.records, meeting.addresses, meeting.hosts, usable, strict=True
        )
    ]


def _start(group: Any, pg_options: Options | None) -> tuple[Options, Settings, Runtime]:
    """Makes what a rank needs before it can tell the others where it is."""
    from rocecoll._c10d import Options

    if pg_options is not None and not isinstance(pg_options, Options):
        raise TypeError(f"pg_options must be rocecoll.Options, not {type(pg_options).__name__}")
    chosen = pg_options or Options()
    settings = options.resolve(chosen.values)
    ranks = group.global_ranks_in_group or range(group.group_size)
    debug_output.configure(settings["debug"], ranks[group.group_rank])
    announcements.tell_aliases(chosen.values)
    if settings["trace"] or settings["flight_recorder"]:
        from rocecoll.flight_recorder import record_until_exit

        record_until_exit(settings["trace"], settings["flight_recorder"], ranks[group.group_rank])
    choice = choose_interface(
        settings["socket_ifname"], settings["socket_family"], _meeting_point(group.store)
    )
    announcements.tell_process(choice, options.carriers(settings))
    wanted = options.runtime_settings(
        settings, choice.address, environment.local_ranks(), _ranks_in_world(group)
    )
    runtime = shared_runtime(wanted)
    warn_of_ignored(chosen.values, wanted, runtime)
    return chosen, settings, runtime


def _ranks_in_world(group: Any) -> int:
    """The same number for all groups of a process, since they share a runtime and its settings."""
    if torch.distributed.is_initialized():
        return torch.distributed.get_world_size()
    return int(group.group_size)  # the first group is the world


def _meeting_point(store: Any) -> str | None:
    """A host that all ranks can reach: where the store runs, else the one that the launcher names."""
    host = getattr(root_of(store), "host", None)
    return str(host) if host else environment.master_address()
