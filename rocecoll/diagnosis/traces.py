# SPDX-License-Identifier: Apache-2.0
"""What the traces of several ranks say together: what took how long, and who came last.

They are those that rocecoll.trace() writes (rocecoll/tracing.py), a file per rank. Times of
different hosts are by different clocks, so lateness means something only where those agree.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class TraceError(ValueError):
    """A file is no trace of rocecoll, or cannot be read or written."""


@dataclass(frozen=True)
class Trace:
    rank: int
    dropped_calls: int
    events: list[dict[str, Any]]  # as Chrome's format has them

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [event for event in self.events if event["ph"] == "X"]


@dataclass(frozen=True)
class Kind:
    """Calls of one operation on one group from one place, of all ranks together."""

    operation: str
    group: str
    started_by: str
    calls: int
    bytes: int
    total_ms: float
    mean_ms: float
    max_ms: float


@dataclass(frozen=True)
class Lateness:
    """How a rank came to the collectives that all its group's traced ranks called."""

    rank: int
    last: int  # times that it came last
    of: int
    median_ms: float  # behind the first, over all of them
    max_ms: float


def read(path: Path) -> Trace:
    try:
        content = json.loads(path.read_text())
        other = content["otherData"]
        return Trace(int(other["rank"]), int(other["dropped_calls"]), list(content["traceEvents"]))
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise TraceError(f"{path} is no trace that rocecoll has written") from None


def kinds(traces: Iterable[Trace]) -> list[Kind]:
    """The one that took longest in all first."""
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for trace in traces:
        for call in trace.calls:
            arguments = call["args"]
            key = (call["name"], _group(arguments), arguments.get("initiator", ""))
            found.setdefault(key, []).append(call)
    rows = []
    for key, calls in found.items():
        times = [call["dur"] / 1e3 for call in calls]
        moved = sum(call["args"].get("bytes", 0) for call in calls)
        mean = statistics.fmean(times)
        rows.append(Kind(*key, len(calls), moved, sum(times), mean, max(times)))
    return sorted(rows, key=lambda kind: -kind.total_ms)


def lateness(traces: Sequence[Trace]) -> list[Lateness]:
    """By rank; empty where no collective was called by two of them."""
    arrivals: dict[tuple[str, int], dict[int, float]] = {}
    for trace in traces:
        for call in trace.calls:
            if call["cat"] == "collective" and "sequence" in call["args"]:
                key = (_group(call["args"]), call["args"]["sequence"])
                arrivals.setdefault(key, {})[trace.rank] = call["ts"] / 1e3
    behind: dict[int, list[float]] = {}
    last: dict[int, int] = {}
    for times in arrivals.values():
        if len(times) < 2:
            continue
        first = min(times.values())
        latest = max(times, key=lambda rank: times[rank])
        last[latest] = last.get(latest, 0) + 1
        for rank, time in times.items():
            behind.setdefault(rank, []).append(time - first)
    return [
        Lateness(rank, last.get(rank, 0), len(all_ms), statistics.median(all_ms), max(all_ms))
        for rank, all_ms in sorted(behind.items())
    ]


def write_merged(traces: Iterable[Trace], path: Path) -> None:
    """All ranks in one picture of chrome://tracing or Perfetto, a process for each."""
    events = [event for trace in traces for event in trace.events]
    try:
        path.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from None


def _group(arguments: dict[str, Any]) -> str:
    return str(arguments.get("description") or arguments["group"])
