# SPDX-License-Identifier: Apache-2.0
"""The content of a picture of the traces: a lane of bars for each rank, and the ranks waited for."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rocecoll.diagnosis.traces.delays import Delays
from rocecoll.diagnosis.traces.trace_files import (
    Event,
    Meeting,
    Trace,
    Window,
    group_name,
    meetings,
)

ROWS = 4  # of a lane, if calls overlap; further calls are drawn over these
LABELLED_WAITS = 5
_CANDIDATES = 100  # for a label
_LEAST_LABELLED = 0.01  # of the window: shorter waits hardly show


@dataclass(frozen=True)
class Bar:
    """A call, or several too short to show apart; `operation` is the one that took most of the time.

    During its first `waited_s` another rank that takes part had not called yet.
    """

    begin_s: float
    end_s: float
    waited_s: float
    operation: str
    calls: int
    failed: bool
    text: str


@dataclass(frozen=True)
class Lane:
    rank: int
    rows: list[list[Bar]]  # by their begin


@dataclass(frozen=True)
class Wait:
    """A wait for a rank that came late by a delay of its own (delays.py)."""

    operation: str
    place: str
    late_rank: int
    first_rank: int
    first_s: float
    until_s: float

    @property
    def duration_s(self) -> float:
        return self.until_s - self.first_s

    def overlaps(self, other: Wait) -> bool:
        """Calls that wait for the same delay of a rank, such as the buckets of a backward pass."""
        return self.late_rank == other.late_rank and (
            self.first_s < other.until_s and other.first_s < self.until_s
        )


@dataclass(frozen=True)
class Timeline:
    """`operations` are those that are shown, in order of total duration, longest first."""

    window: Window
    lanes: list[Lane]
    operations: list[str]
    waits: list[Wait]


def compose(traces: Sequence[Trace], window: Window, grain_s: float, most_bars: int) -> Timeline:
    """Bars shorter than `grain_s` are joined; if there are still too many, longer ones, too."""
    met = meetings(traces)
    met_by_call = {id(call): meeting for meeting in met for call in meeting.calls.values()}
    rows = {
        trace.rank: _rows([_bar(call, met_by_call.get(id(call)), window) for call in trace.calls])
        for trace in traces
    }
    operations = _by_time(bar for lane in rows.values() for row in lane for bar in row)
    joined = _joined(rows, grain_s)
    while sum(len(row) for lane in joined.values() for row in lane) > most_bars:
        grain_s *= 2
        joined = _joined(rows, grain_s)
    lanes = [Lane(rank, lane) for rank, lane in joined.items()]
    return Timeline(window, lanes, operations, _longest_waits(met, window))


def duration_text(duration_s: float) -> str:
    for unit, unit_s in (("s", 1.0), ("ms", 1e-3)):
        if duration_s >= unit_s:
            return f"{duration_s / unit_s:.4g} {unit}"
    return f"{duration_s / 1e-6:.3g} us"


def _bar(call: Event, meeting: Meeting | None, window: Window) -> Bar:
    arguments = call["args"]
    begin_s, end_s = window.begin_s(call), window.end_s(call)
    number = f" #{arguments['sequence']}" if "sequence" in arguments else ""
    text = f"{call['name']}{number} on {group_name(call)}: {duration_text(end_s - begin_s)}"
    waited_s = 0.0
    if meeting is not None and call is not meeting.calls[meeting.last]:
        waited_s = min(window.begin_s(meeting.calls[meeting.last]), end_s) - begin_s
        text += f", of these {duration_text(waited_s)} until rank {meeting.last} came"
    if place := arguments.get("initiator"):
        text += f"; {place}"
    if error := arguments.get("error"):
        text += f"; failed: {error}"
    return Bar(begin_s, end_s, waited_s, call["name"], 1, bool(error), text)


def _rows(bars: list[Bar]) -> list[list[Bar]]:
    """Puts overlapping bars into different rows, as long as rows are left."""
    rows: list[list[Bar]] = []
    free: list[tuple[float, int]] = []  # (time at which the row is free, row): a heap
    for bar in sorted(bars, key=lambda bar: bar.begin_s):
        if len(rows) < ROWS and (not free or free[0][0] > bar.begin_s):
            rows.append([bar])
            heapq.heappush(free, (bar.end_s, len(rows) - 1))
        else:
            end_s, row = free[0]
            rows[row].append(bar)
            heapq.heapreplace(free, (max(end_s, bar.end_s), row))
    return rows


def _joined(lanes: dict[int, list[list[Bar]]], grain_s: float) -> dict[int, list[list[Bar]]]:
    return {
        rank: [list(_without_narrow(row, grain_s)) for row in rows] for rank, rows in lanes.items()
    }


def _without_narrow(row: Iterable[Bar], grain_s: float) -> Iterable[Bar]:
    """Joins runs of narrow bars that have no visible gap."""
    run: list[Bar] = []
    for bar in row:
        narrow = bar.end_s - bar.begin_s < grain_s
        if run and not (narrow and bar.begin_s - run[-1].end_s < grain_s):
            yield _join(run)
            run = []
        if narrow:
            run.append(bar)
        else:
            yield bar
    if run:
        yield _join(run)


def _join(run: Sequence[Bar]) -> Bar:
    if len(run) == 1:
        return run[0]
    operation = _by_time(run)[0]
    calls = sum(bar.calls for bar in run)
    begin_s, end_s = run[0].begin_s, max(bar.end_s for bar in run)
    waited_s = sum(bar.waited_s for bar in run)
    text = f"{calls} calls in {duration_text(end_s - begin_s)}, most of the time {operation}"
    failed = any(bar.failed for bar in run)
    return Bar(begin_s, end_s, min(waited_s, end_s - begin_s), operation, calls, failed, text)


def _by_time(bars: Iterable[Bar]) -> list[str]:
    """Operations by total duration, the longest first."""
    times_s: dict[str, float] = {}
    for bar in bars:
        times_s[bar.operation] = times_s.get(bar.operation, 0.0) + bar.end_s - bar.begin_s
    return sorted(times_s, key=lambda operation: -times_s[operation])


def _longest_waits(met: Sequence[Meeting], window: Window) -> list[Wait]:
    """Waits in order of time; of several for the same delay only the longest."""
    delays = Delays(met)
    longest = heapq.nlargest(_CANDIDATES, met, lambda meeting: meeting.behind_us(meeting.last))
    late = [(delays.of(meeting, meeting.last), meeting) for meeting in longest]
    late.sort(key=lambda one: -one[0].own_us)
    least_us = (window.to_s - window.from_s) * 1e6 * _LEAST_LABELLED
    chosen: list[Wait] = []
    for delay, meeting in late:
        if delay.own_us < least_us or len(chosen) == LABELLED_WAITS:
            break
        wait = _wait(meeting, window)
        inside = window.from_s <= wait.until_s <= window.to_s
        if inside and delay.is_own and not any(map(wait.overlaps, chosen)):
            chosen.append(wait)
    return sorted(chosen, key=lambda wait: wait.until_s)


def _wait(meeting: Meeting, window: Window) -> Wait:
    first, last = meeting.calls[meeting.first], meeting.calls[meeting.last]
    return Wait(
        operation=f"{last['name']} #{last['args']['sequence']} on {group_name(last)}",
        place=last["args"].get("initiator", ""),
        late_rank=meeting.last,
        first_rank=meeting.first,
        first_s=window.begin_s(first),
        until_s=window.begin_s(last),
    )
