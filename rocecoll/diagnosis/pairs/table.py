# SPDX-License-Identifier: Apache-2.0
"""How hosts that test each other exchange results through a Store, and whose turn it is."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from rocecoll.rendezvous.meeting import Store, look_interval_s
from rocecoll.rendezvous.records import list_ranks

STEP_LIMIT = timedelta(seconds=60)
_PREFIX = "rocecoll/doctor"


class PairsError(RuntimeError):
    """Not all hosts came, or one went away."""


class Table:
    """What each rank has written to the Store, by name."""

    def __init__(self, store: Store, rank: int, ranks: int) -> None:
        self._store = store
        self._rank = rank
        self._ranks = ranks

    def say(self, name: str, value: Any) -> None:
        self._store.set(self._key(name, self._rank), json.dumps(value))

    def hear(self, name: str, ranks: Sequence[int], limit: timedelta = STEP_LIMIT) -> list[Any]:
        """Looks again and again: no signal would end the Store's own wait."""
        keys = [self._key(name, rank) for rank in ranks]
        begun, limit_s = time.monotonic(), limit.total_seconds()
        while not self._store.check(keys):
            waited_s = time.monotonic() - begun
            if waited_s >= limit_s:
                missing = [rank for rank in ranks if not self.has(name, rank)]
                raise PairsError(
                    f"rank {self._rank} waited {limit_s:g} s for {list_ranks(missing)} of "
                    f"{self._ranks}: start `rocecoll doctor --store` with the same --ranks there"
                )
            time.sleep(min(look_interval_s(waited_s, len(keys)), limit_s - waited_s))
        return [json.loads(self._store.get(key)) for key in keys]

    def hear_all(self, name: str, limit: timedelta = STEP_LIMIT) -> list[Any]:
        return self.hear(name, range(self._ranks), limit)

    def has(self, name: str, rank: int) -> bool:
        return self._store.check([self._key(name, rank)])

    def _key(self, name: str, rank: int) -> str:
        return f"{_PREFIX}/{name}/{rank}"


def turns(ranks: int) -> list[dict[int, int]]:
    """Which ranks stream to each other in each turn, by the circle method; of an odd number one rests."""
    places = [*range(ranks), *([-1] if ranks % 2 else [])]
    rounds = []
    for _ in range(len(places) - 1):
        half = len(places) // 2
        pairs = zip(places[:half], reversed(places[half:]), strict=True)
        rounds.append({a: b for one, other in pairs for a, b in ((one, other), (other, one))})
        places = [places[0], places[-1], *places[1:-1]]
    return rounds
