# SPDX-License-Identifier: Apache-2.0
"""Groups that this process is making: which ranks each waits for, for the log and `rocecoll status`."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rocecoll import notes
from rocecoll.rendezvous.records import list_ranks

FIRST_WARNING_S = 10.0  # the same as for a waiting operation
# How often to ask who is missing, at most: every rank of a group asks the same Store.
LOOK_S = 1.0
RANKS_ASKED_A_SECOND = 200


@dataclass
class Forming:
    """A group that is being made. Ranks are global ranks."""

    name: str
    rank: int
    ranks: Sequence[int]
    started: float
    missing: list[int] = field(default_factory=list)
    _next_look_s: float = LOOK_S
    _next_warning_s: float = FIRST_WARNING_S

    def is_due(self, now: float) -> bool:
        """Whether it is time to find out who is missing and to call miss()."""
        return now - self.started >= self._next_look_s

    def miss(self, missing: Sequence[int], now: float) -> None:
        """`missing` are indices into `ranks`."""
        waited_s = now - self.started
        self._next_look_s = waited_s + max(LOOK_S, len(self.ranks) / RANKS_ASKED_A_SECOND)
        self.missing = self.spell(missing)
        if waited_s >= self._next_warning_s and missing:
            self._next_warning_s = 3 * waited_s if waited_s < 20 else 2 * waited_s
            notes.log(logging.WARNING, self._warning(waited_s))

    @property
    def prefix(self) -> str:
        return f"group {self.name!r}: rank {self.rank}"

    def spell(self, places: Sequence[int]) -> list[int]:
        return [self.ranks[place] for place in places]

    def _warning(self, waited_s: float) -> str:
        it = "its" if len(self.missing) == 1 else "their"
        told = (
            f"{self.prefix} has waited {waited_s:.0f} s for "
            f"{list_ranks(self.missing)} ({len(self.missing)} of {len(self.ranks)}) to make the "
            f"group, too: {it} program has not called init_process_group or new_group for it, or "
            "has ended"
        )
        return "; ".join([told, *_failures()])


def _failures() -> list[str]:
    """The failures of existing groups, which may be why a rank never comes."""
    from rocecoll import _core

    return [
        f"of group {state['name']!r} is known: {state['failure']}"
        for state in _core.process_groups()
        if state["failure"]
    ]


_forming: list[Forming] = []
_lock = threading.Lock()


@contextmanager
def forming(name: str, place: int, ranks: Sequence[int]) -> Iterator[Forming]:
    """Lists the group while it is made. `place` is this rank's index in `ranks`."""
    one = Forming(name, ranks[place], ranks, time.monotonic())
    with _lock:
        _forming.append(one)
    try:
        yield one
    finally:
        with _lock:
            _forming.remove(one)


def snapshot() -> list[dict[str, Any]]:
    now = time.monotonic()
    with _lock:
        return [
            {
                "name": one.name,
                "ranks": len(one.ranks),
                "global_rank": one.rank,
                "waits_for": one.missing,
                "for_s": now - one.started,
            }
            for one in _forming
        ]


def forget() -> None:
    """For a forked child, which makes none of these groups. Its copy of the lock may be held."""
    global _lock
    _lock = threading.Lock()
    _forming.clear()
