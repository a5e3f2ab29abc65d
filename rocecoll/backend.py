# SPDX-License-Identifier: Apache-2.0
"""Makes the backend of one process group: options, runtime, rendezvous."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import torch.distributed

import rocecoll
from rocecoll import options
from rocecoll.host.interfaces import choose_interface
from rocecoll.logs import announcements, debug_output
from rocecoll.rendezvous.meeting import meet, store_of_members, summary, tell_failure
from rocecoll.rendezvous.records import make_record, roce_ranks, roce_summary
from rocecoll.runtime import shared_runtime, warn_of_ignored

if TYPE_CHECKING:
    from rocecoll._c10d import Backend, Options, Runtime
    from rocecoll.options import Settings


def create_backend(group: Any, pg_options: Options | None) -> Backend:
    """What torch calls for init_process_group("rocecoll") and new_group(backend="rocecoll").

    `group` is torch's _DistributedBackendOptions: store, group_rank, group_size, timeout, group_id
    and global_ranks_in_group (empty for the world).
    """
    from rocecoll._c10d import make_backend, require_room_for_a_group

    store = store_of_members(group)
    try:
        require_room_for_a_group()
        chosen, settings, runtime = _start(group, pg_options)
    except Exception as error:
        tell_failure(store, group.group_rank, group.group_size, error)
        raise
    settings |= runtime.settings  # the process may have had a group before, with other ones
    own = make_record(
        rank=group.group_rank,
        ranks=group.group_size,
        address=runtime.address,
        process=runtime.process,
        agreed=options.agreed(settings),
        version=rocecoll.__version__,
        roce_port=runtime.roce_port,
        roce_problem=runtime.roce_problem,
    )
    meeting = meet(store, own, group.group_id, group.timeout, group.global_ranks_in_group)
    if own.rank == 0:  # the others know the same
        line = summary(meeting, group.group_id, options.carriers(settings))
        if told := roce_summary(meeting.records, options.shares_memory(settings)):
            line += f"; {told}"
        logging.getLogger("rocecoll").info("%s", line)
    return make_backend(
        runtime=runtime,
        name=group.group_id,
        key=meeting.key,
        rank=group.group_rank,
        addresses=list(meeting.addresses),
        processes=[record.process for record in meeting.records],
        roce=roce_ranks(meeting.records, options.shares_memory(settings)),
        known_as=[record.address for record in meeting.records],
        global_ranks=list(group.global_ranks_in_group),
        hosts=list(meeting.hosts),
        timeout=group.timeout,
        algorithms=settings["algorithm"],
        options=chosen,
    )


def _start(group: Any, pg_options: Options | None) -> tuple[Options, Settings, Runtime]:
    """What a rank needs before it can tell the others where it is."""
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
        settings, choice.address, options.local_ranks(), _ranks_in_world(group)
    )
    runtime = shared_runtime(wanted)
    warn_of_ignored(chosen.values, wanted, runtime)
    return chosen, settings, runtime


def _ranks_in_world(group: Any) -> int:
    """One number for all groups of a process, which share their runtime and so its settings."""
    if torch.distributed.is_initialized():
        return torch.distributed.get_world_size()
    return int(group.group_size)  # the first group is the world


def _meeting_point(store: Any) -> str | None:
    """The host that all ranks can reach: where the store runs, else what the launcher says."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    host = getattr(store, "host", None)
    return str(host) if host else options.master_address()
