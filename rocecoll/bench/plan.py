# SPDX-License-Identifier: Apache-2.0
"""What to measure, against which peers, and for how long."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from rocecoll.bench.operations import TO_OTHERS, Case

OURS = "rocecoll"
Self = TypeVar("Self", bound="Plan")


@dataclass(frozen=True)
class Plan:
    """A round goes through all peers and back, so that each has two blocks in it."""

    cases: list[Case]
    peers: list[str]  # besides rocecoll
    rounds: int
    block_s: float

    def on_ranks(self: Self, ranks: int) -> Self:
        """The plan without cases that this number of ranks cannot run."""
        possible = [case for case in self.cases if ranks > 1 or case.operation not in TO_OTHERS]
        return replace(self, cases=possible)

    @property
    def contenders(self) -> list[str]:
        return [OURS, *self.peers]

    @property
    def most_blocks(self) -> int:
        return 2 * self.rounds * len(self.contenders) * len(self.cases)

    def json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def read(cls, written: dict[str, Any]) -> Plan:
        cases = [Case.read(case) for case in written["cases"]]
        return Plan(cases, written["peers"], written["rounds"], written["block_s"])
