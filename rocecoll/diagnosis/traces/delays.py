# SPDX-License-Identifier: Apache-2.0
"""Which rank causes a delay: one that comes late because it waited for others causes none itself."""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rocecoll.diagnosis.traces.trace_files import Meeting


@dataclass(frozen=True)
class Delay:
    """How long after the first a rank came. It waited for others in all of it but `own_us`."""

    whole_us: float
    own_us: float

    @property
    def is_own(self) -> bool:
        return self.own_us >= self.whole_us / 2


class Spans:
    """Parts of a rank's time, in order and without overlap."""

    def __init__(self, given: Iterable[tuple[float, float]]) -> None:
        self.begins: list[float] = []
        self.ends: list[float] = []
        self.lengths_before = [0.0]
        for begin, end in sorted(given):
            begin = max(begin, self.ends[-1]) if self.ends else begin
            if end > begin:
                self.begins.append(begin)
                self.ends.append(end)
                self.lengths_before.append(self.lengths_before[-1] + end - begin)

    def length_until(self, moment: float) -> float:
        begun = bisect_right(self.begins, moment)
        over = max(self.ends[begun - 1] - moment, 0.0) if begun else 0.0
        return self.lengths_before[begun] - over

    def length_within(self, begin: float, end: float) -> float:
        return self.length_until(end) - self.length_until(begin)


class Delays:
    """The delays of the ranks in these meetings."""

    def __init__(self, met: Iterable[Meeting]) -> None:
        waits: dict[int, list[tuple[float, float]]] = {}
        for meeting in met:
            came = meeting.calls[meeting.last]["ts"]
            for rank, call in meeting.calls.items():
                until = min(came, call["ts"] + call["dur"])
                waits.setdefault(rank, []).append((call["ts"], until))
        self.waits = {rank: Spans(some) for rank, some in waits.items()}

    def of(self, meeting: Meeting, rank: int) -> Delay:
        first, whole = meeting.calls[meeting.first]["ts"], meeting.behind_us(rank)
        return Delay(whole, whole - self.waits[rank].length_within(first, first + whole))


@dataclass(frozen=True)
class Lateness:
    """How late a rank was for the collectives that all traced ranks of its group called.

    Time in which it waited for others itself does not count.
    """

    rank: int
    last: int  # how often it came last by a delay of its own
    of: int
    median_ms: float  # behind the first, over all of them
    max_ms: float


def lateness(met: Sequence[Meeting]) -> list[Lateness]:
    """By rank."""
    delays = Delays(met)
    behind_ms: dict[int, list[float]] = {}
    last: Counter[int] = Counter()
    for meeting in met:
        last[meeting.last] += delays.of(meeting, meeting.last).is_own
        for rank in meeting.calls:
            behind_ms.setdefault(rank, []).append(delays.of(meeting, rank).own_us / 1e3)
    return [
        Lateness(rank, last[rank], len(all_ms), statistics.median(all_ms), max(all_ms))
        for rank, all_ms in sorted(behind_ms.items())
    ]
