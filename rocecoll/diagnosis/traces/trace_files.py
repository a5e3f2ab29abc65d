# SPDX-License-Identifier: Apache-2.0
"""What the traces of several ranks say together: what took how long, and which calls met.

rocecoll.trace() writes them (rocecoll/tracing.py), a file per rank. Times of different hosts come from
different clocks, so lateness between hosts means something only if those agree.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

_LEAST_WINDOW_S = 1e-6  # a call may take less than the clock's resolution
Event = dict[str, Any]  # as Chrome's format has it: times in us


class TraceError(ValueError):
    """A file is no trace of rocecoll, or cannot be read or written."""


@dataclass(frozen=True)
class Trace:
    rank: int
    dropped_calls: int
    events: list[Event]

    @property
    def calls(self) -> list[Event]:
        return [event for event in self.events if event["ph"] == "X"]


@dataclass(frozen=True)
class Window:
    """A part of the time that the traces span; its seconds count from their first call on."""

    origin_us: float
    from_s: float
    to_s: float

    def begin_s(self, call: Event) -> float:
        return float(call["ts"] - self.origin_us) / 1e6

    def end_s(self, call: Event) -> float:
        return float(call["ts"] + call["dur"] - self.origin_us) / 1e6

    def has(self, call: Event) -> bool:
        return self.end_s(call) >= self.from_s and self.begin_s(call) <= self.to_s


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
class Meeting:
    """One collective, with the calls of those of its ranks whose traces were given."""

    calls: dict[int, Event]  # by rank

    @cached_property
    def first(self) -> int:
        return min(self.calls, key=lambda rank: self.calls[rank]["ts"])

    @cached_property
    def last(self) -> int:
        return max(self.calls, key=lambda rank: self.calls[rank]["ts"])

    def behind_us(self, rank: int) -> float:
        """The first that came."""
        return float(self.calls[rank]["ts"] - self.calls[self.first]["ts"])


def read_all(paths: Iterable[Path]) -> list[Trace]:
    """By rank."""
    found: dict[int, tuple[Path, Trace]] = {}
    for path in paths:
        trace = read(path)
        if trace.rank in found:
            other, _ = found[trace.rank]
            raise TraceError(
                f"{other} and {path} are both of rank {trace.rank}: give the files of one job, each "
                "once"
            )
        found[trace.rank] = path, trace
    return [trace for _, (_, trace) in sorted(found.items())]


def read(path: Path) -> Trace:
    try:
        content = json.loads(path.read_text())
        other = content["otherData"]
        made = Trace(int(other["rank"]), int(other["dropped_calls"]), list(content["traceEvents"]))
        if not all(map(_is_ours, made.calls)):
            raise KeyError
        return made
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise TraceError(f"{path} is no trace of one rank that rocecoll has written") from None


def _is_ours(call: Event) -> bool:
    """Whether it has what tracing.py writes of every call."""
    numbers, words = (call["ts"], call["dur"]), (call["name"], call["cat"], call["args"]["group"])
    return all(isinstance(one, int | float) for one in numbers) and all(
        isinstance(one, str) for one in words
    )


def check_output(path: Path) -> None:
    """TraceError if the file is itself the trace of a rank, which is not to be lost.

    `--merge trace.*.json` has left the name out, and takes the first of the ranks for it.
    """
    if not path.is_file():
        return
    try:
        rank = read(path).rank
    except TraceError:
        return
    raise TraceError(f"{path} is the trace of rank {rank}: name another file to write")


def choose_window(traces: Iterable[Trace], from_s: float | None, to_s: float | None) -> Window:
    """The window from `from_s` to `to_s`; TraceError if no call runs in it."""
    calls = [call for trace in traces for call in trace.calls]
    if not calls:
        raise TraceError("there is no call in these traces")
    origin_us = min(call["ts"] for call in calls)
    last_s = (max(call["ts"] + call["dur"] for call in calls) - origin_us) / 1e6
    begin_s = from_s or 0.0
    end_s = max(last_s, begin_s + _LEAST_WINDOW_S) if to_s is None else to_s
    window = Window(origin_us, begin_s, end_s)
    if not any(window.has(call) for call in calls):
        raise TraceError(
            f"no call runs between {window.from_s:g} s and {window.to_s:g} s: the last one ends "
            f"{last_s:g} s after the first began"
        )
    return window


def cut(traces: Iterable[Trace], window: Window) -> list[Trace]:
    """The traces with only the calls that run in the window."""

    def stays(event: Event) -> bool:
        return event["ph"] != "X" or window.has(event)

    return [replace(trace, events=list(filter(stays, trace.events))) for trace in traces]


def kinds(traces: Iterable[Trace]) -> list[Kind]:
    """Kinds of calls by total duration, the longest first."""
    found: dict[tuple[str, str, str], list[Event]] = {}
    for trace in traces:
        for call in trace.calls:
            key = (call["name"], group_name(call), call["args"].get("initiator", ""))
            found.setdefault(key, []).append(call)
    rows = []
    for key, calls in found.items():
        times = [call["dur"] / 1e3 for call in calls]
        moved = sum(call["args"].get("bytes", 0) for call in calls)
        mean = statistics.fmean(times)
        rows.append(Kind(*key, len(calls), moved, sum(times), mean, max(times)))
    return sorted(rows, key=lambda kind: -kind.total_ms)


def meetings(traces: Iterable[Trace]) -> list[Meeting]:
    """The collectives that at least two of the ranks have called, in order of their first call.

    A group of the same name may be made again, and its numbers then begin again.
    """
    found: dict[tuple[Any, ...], dict[int, Event]] = {}
    for trace in traces:
        times: Counter[tuple[Any, ...]] = Counter()
        for call in trace.calls:
            arguments = call["args"]
            if call["cat"] == "collective" and "sequence" in arguments:
                ranks = tuple(arguments.get("global_ranks", ()))
                key = (arguments["group"], ranks, arguments["sequence"])
                times[key] += 1
                found.setdefault((*key, times[key]), {})[trace.rank] = call
    made = [Meeting(calls) for calls in found.values() if len(calls) > 1]
    return sorted(made, key=lambda meeting: float(meeting.calls[meeting.first]["ts"]))


def write_merged(traces: Iterable[Trace], path: Path) -> None:
    """Writes all ranks into one file for chrome://tracing or Perfetto, a process for each."""
    events = [event for trace in traces for event in trace.events]
    try:
        path.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from None


def group_name(call: Event) -> str:
    """The program's name of the group, else torch's."""
    arguments = call["args"]
    described = str(arguments.get("description", ""))
    return described if described not in ("", "undefined") else f"group {arguments['group']}"
