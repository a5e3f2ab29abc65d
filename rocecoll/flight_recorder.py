# SPDX-License-Identifier: Apache-2.0
"""Dumps that torchfrtrace reads, so that it names the rank that is missing or differs.

One file per rank in the schema of torch's FlightRecorder.hpp. Where torch's own backends describe a
call differently, we do as they do, because the tool's rules are made for them.
"""

from __future__ import annotations

import atexit
import math
import os
import pickle
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocecoll import _core
from rocecoll.tracing import Trace, process_rank, state, write

if TYPE_CHECKING:
    from rocecoll._c10d import Call

CAPACITY = 1 << 16  # calls, of about 1 KB each
SCHEMA = "2.10"
PREFIX = "gloo:"  # the tool accepts only the names of torch's own backends
POLL_S = 0.1  # a launcher ends the other ranks soon after the first one has failed
NAMES = {
    "all_reduce_coalesced": "allreduce_coalesced",
    "sparse_all_reduce": "all_reduce",
    "monitored_barrier": "barrier",
}

Entry = dict[str, Any]
Sizes = list[list[int]]

_recording_process: int | None = None
_rank = 0  # of this process in its first group, or in the one to which it was reconfigured


def dump(prefix: str | os.PathLike[str], rank: int | None = None) -> Path:
    """Writes the calls of the present recording to `prefix` followed by the rank."""
    from rocecoll import _c10d

    calls, dropped = _c10d.recorded_calls(0)
    path = Path(f"{os.fspath(prefix)}{process_rank(calls) if rank is None else rank}")
    write(path, lambda file: pickle.dump(content(calls, dropped), file))
    return path


def content(calls: list[Call], dropped: int) -> dict[str, Any]:
    groups: dict[str, dict[str, str]] = {}
    numbers: dict[str, int] = {}
    entries = []
    for index, call in enumerate(calls):
        if call["error"] and call["started_ns"] is None:
            continue  # refused, for example by a failed group: no other rank knows of it
        if not call["point_to_point"]:
            entry = _collective(call)
            ranks = call["global_ranks"]
        elif dropped or call["root"] in (None, -1):
            continue  # cannot be paired: earlier ones are missing, or the sender is not known yet
        else:
            entry, ranks = _message(call, numbers)
        name, description = entry["process_group"]
        groups[name] = {"name": name, "desc": description, "ranks": str(ranks)}
        entry |= _common(call)
        entries.append(entry | {"record_id": dropped + index, "op_id": dropped + index})
    return {
        "version": SCHEMA,
        "comm_lib_version": "rocecoll",
        "pg_config": groups,
        "pg_status": {},
        "entries": entries,
    }


def _common(call: Call) -> Entry:
    ended = call["ended_ns"]
    return {
        "pg_id": 0,
        "is_p2p": call["point_to_point"],
        "time_created_ns": call["enqueued_ns"],
        "time_discovered_started_ns": call["started_ns"],
        "time_discovered_completed_ns": None if call["error"] else ended,
        "duration_ms": None if ended is None else (ended - call["enqueued_ns"]) / 1e6,
        "timeout_ms": call["timeout_ms"],
        "input_dtypes": [dtype for _, dtype, _ in call["inputs"]],
        "output_dtypes": [dtype for _, dtype, _ in call["outputs"]],
        "state": "started" if state(call) == "failed" else state(call),
        "retired": ended is not None,
        "error": call["error"],
        "thread_id": str(call["thread_id"]),
        "thread_name": call["thread_name"],
        "frames": call["frames"],
    }


def _collective(call: Call) -> Entry:
    name = call["op"].removeprefix("rocecoll:")
    name, inputs, outputs = _sizes(NAMES.get(name, name), call)
    return {
        "process_group": (call["group"], call["description"]),
        "collective_seq_id": call["sequence"],
        "p2p_seq_id": 0,
        "profiling_name": PREFIX + name,
        "input_sizes": inputs,
        "output_sizes": outputs,
    }


def _sizes(name: str, call: Call) -> tuple[str, Sizes, Sizes]:
    """Turns a list of one tensor per rank into one tensor, as other backends record it."""
    ranks = len(call["global_ranks"])
    inputs = [sizes for sizes, _, _ in call["inputs"]]
    outputs = [sizes for sizes, _, _ in call["outputs"]]
    if name == "all_gather" and len(outputs) == ranks * len(inputs):
        outputs = [[ranks, *sizes] for sizes in inputs]
    elif name == "reduce_scatter" and len(inputs) == ranks * len(outputs):
        if any(sizes != inputs[0] for sizes in inputs):
            return "reduce_scatter_v", inputs, [[]]  # each rank may get a different size
        inputs = [[ranks, *inputs[0]]]
    elif name == "all_to_all":
        inputs, outputs = ([[sum(map(math.prod, side))]] for side in (inputs, outputs))
    return name, inputs, outputs


def _message(call: Call, numbers: dict[str, int]) -> tuple[Entry, list[int]]:
    """Records a message as an operation of a two-rank group, one group for each direction and tag.

    The tool waits for every rank of a group, and pairs by sequence number.
    """
    ranks = call["global_ranks"]
    sends = call["op"] == "rocecoll:send"
    assert call["root"] is not None
    ends = (call["group_rank"], call["root"]) if sends else (call["root"], call["group_rank"])
    source, target = (ranks[end] for end in ends)
    group = f"{call['group']}: {source}->{target} tag {call['tag']}"
    numbers[group] = numbers.get(group, 0) + 1
    order = sorted((source, target))
    sender, receiver = order.index(source), order.index(target)
    way = f"send {sender}->{receiver}" if sends else f"recv {receiver}<-{sender}"
    sizes = [sizes for sizes, _, _ in call["inputs"]]
    entry = {
        "process_group": (group, call["description"]),
        "collective_seq_id": numbers[group],
        "p2p_seq_id": numbers[group],
        "profiling_name": PREFIX + way,
        "input_sizes": sizes,
        "output_sizes": sizes,
    }
    return entry, order


def rank_is(rank: int) -> None:
    """What is written from here on is of this rank: the default group was reconfigured."""
    global _rank
    _rank = rank


def record_until_exit(trace_path: str, dump_prefix: str, rank: int) -> None:
    """What the options ask for, from the process's first group on. A forked child writes nothing."""
    from rocecoll import _c10d

    global _recording_process
    owner = os.getpid()
    if _recording_process == owner:
        return
    _recording_process = owner
    rank_is(rank)
    trace = Trace(trace_path, CAPACITY, rank).__enter__() if trace_path else None
    ending = threading.Event()
    watcher = threading.Thread(
        target=_watch, args=(dump_prefix, ending), name="rocecoll_dump", daemon=True
    )
    if dump_prefix:
        _c10d.start_recording(CAPACITY)
        watcher.start()

    def finish() -> None:
        if os.getpid() != owner:
            return
        if dump_prefix:
            ending.set()
            watcher.join()
        if trace:
            trace.rank = _rank
            trace.__exit__(None, None, None)

    atexit.register(finish)


class Evidence:
    """Which failures are worth a dump: the first of each incident.

    An incident lasts until the program has destroyed all failed groups. Failures during that time
    are usually consequences of the first, and later calls would hide which one was missing.
    """

    def __init__(self) -> None:
        self.kept = False
        self._failures = 0
        self._open = False

    def look(self, failed_groups: int, failures: int) -> bool:
        """`failed_groups` is how many existing groups have failed, `failures` how many ever did.

        Returns whether to dump now.
        """
        new = failures > self._failures and not self._open
        self._failures, self._open = failures, failed_groups > 0
        self.kept |= new
        return new


def _watch(prefix: str, ending: threading.Event) -> None:
    """Dumps when a group fails, even if no call waits here: other ranks may wait for this one.

    Dumps at exit only if nothing has failed: a later dump would show less of the failure.
    """
    evidence = Evidence()
    ended = False
    while not ended:
        ended = ending.wait(POLL_S)
        if evidence.look(*_core.failed_groups()):
            dump(prefix, _rank)
    if not evidence.kept:
        dump(prefix, _rank)
