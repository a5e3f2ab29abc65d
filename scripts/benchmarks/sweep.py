# SPDX-License-Identifier: Apache-2.0
"""Is the algorithm that rocecoll chooses the best one? Each becomes a peer that takes its turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import torch.distributed as dist
from rich.table import Table

import rocecoll
from benchmarks.core_peer import hosts_of_ranks
from rocecoll import _core
from rocecoll.bench import sizes, tables
from rocecoll.bench.operations import Case, Operation
from rocecoll.bench.peers import GIVE_UP_S, TorchPeer
from rocecoll.bench.plan import OURS
from rocecoll.bench.results import Row

WITHIN = 1.1  # the choice is good if it takes at most this many times as long as the best
SEPARATOR = ":"


def algorithms(operation: Operation, hosts: Sequence[int] | None = None) -> list[str]:
    """All algorithms, or those that ranks on these hosts can use (some are of no use on one host)."""
    if operation is Operation.send_recv:
        return []  # two operations
    name = operation.value
    collective = name.replace("_", "") if name.startswith("all") else name
    if hosts is None:
        return _core.algorithm_names(collective)
    return _core.algorithm_names(collective, len(hosts), hosts if len(set(hosts)) > 1 else ())


def peers(operations: list[Operation]) -> list[str]:
    """OPERATION:ALGORITHM for each operation that has several algorithms."""
    return [
        f"{operation.value}{SEPARATOR}{name}"
        for operation in dict.fromkeys(operations)
        for name in algorithms(operation)
        if len(algorithms(operation)) > 1
    ]


class AlgorithmPeer(TorchPeer):
    """rocecoll, made to use one algorithm for one operation."""

    def supports(self, case: Case) -> bool:
        operation, _, algorithm = self.name.partition(SEPARATOR)
        possible = algorithms(case.operation, hosts_of_ranks())
        return case.operation.value == operation and algorithm in possible

    def new_group(self) -> dist.ProcessGroup:
        options = rocecoll.Options(algorithm=self.name)
        limit = timedelta(seconds=GIVE_UP_S)
        made: dist.ProcessGroup = dist.new_group(backend=OURS, timeout=limit, pg_options=options)
        return made


@dataclass(frozen=True)
class Choice:
    """Medians of the chosen algorithm and of the best of all; the ratio also over the rounds."""

    chosen_us: float
    best: str
    best_us: float
    least: float
    most: float

    @property
    def ratio(self) -> float:
        return self.chosen_us / self.best_us

    @property
    def is_good(self) -> bool:
        """The choice is good unless every round says otherwise."""
        return self.least <= WITHIN


def choice(row: Row) -> Choice:
    made = {peer: row.median_us(peer) for peer in row.blocks if SEPARATOR in peer}
    best = min(made, key=made.__getitem__)
    rounds = row.ratio(best)
    name = best.partition(SEPARATOR)[2]
    return Choice(row.median_us(OURS), name, made[best], 1 / rounds.most, 1 / rounds.least)


def table(rows: list[Row]) -> Table:
    """The table of the rows that have a choice."""
    made = Table(title="The chosen algorithm beside the best")
    columns = (
        "where",
        "operation",
        "size",
        "chosen us",
        "best us",
        "best",
        "chosen / best",
        "rounds",
    )
    for column in (*columns, f"within {WITHIN:g}"):
        made.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        if not any(SEPARATOR in peer for peer in row.blocks):
            continue
        found = choice(row)
        made.add_row(
            row.where,
            row.case.operation.value,
            sizes.text(row.case.bytes(row.ranks)),
            tables.time_text(found.chosen_us),
            tables.time_text(found.best_us),
            found.best,
            f"{found.ratio:.2f}",
            f"{found.least:.2f}-{found.most:.2f}",
            "yes" if found.is_good else "no",
        )
    return made
