# SPDX-License-Identifier: Apache-2.0
"""rocecoll against perftest and OpenMPI in one guest: runs the rounds, prints the table."""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table
from softroce_bed import beds, packages
from softroce_bed.bed import BedError, Job

from benchmarks.cases import CASES, OTHERS, Case, Transport
from rocecoll.bench import sizes

SCRIPTS = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Row:
    case: Case
    other: str
    size_bytes: int
    ours: float  # medians of the blocks
    theirs: float

    @property
    def ratio(self) -> float:
        return self.case.ratio(self.ours, self.theirs)

    @property
    def met(self) -> bool:
        return self.ratio >= self.case.bar


def rows(transport: Transport, lines: Iterable[dict]) -> list[Row]:
    """Results of the cases that could be measured, from the blocks that rounds.py has written."""
    values: dict[tuple[str, int, str], list[float]] = defaultdict(list)
    for line in lines:
        for size, value in line["values"].items():
            values[line["case"], int(size), line["side"]].append(value)
    return [
        Row(
            case,
            OTHERS[case.name, transport],
            size,
            *(statistics.median(values[case.name, size, side]) for side in ("rocecoll", "other")),
        )
        for case in CASES
        for size in case.sizes_bytes
        if (case.name, size, "other") in values
    ]


def text_of(case: Case, value: float) -> str:
    return f"{value / 1e6:.1f} MB/s" if case.is_rate else f"{value * 1e6:.0f} us"


def table(title: str, results: Iterable[Row]) -> Table:
    made = Table(title=title)
    for column in ("case", "size", "rocecoll", "against", "", "ratio", "bar", ""):
        made.add_column(column, justify="right", no_wrap=True)
    for row in results:
        made.add_row(
            row.case.name,
            sizes.text(row.size_bytes),
            text_of(row.case, row.ours),
            row.other,
            text_of(row.case, row.theirs),
            f"{row.ratio:.2f}",
            f"{row.case.bar:g}",
            "met" if row.met else "missed",
        )
    return made


def measure(transport: Transport, rounds: int, name: beds.Name) -> tuple[str, list[Row]]:
    """A title that names the bed, and the rows."""
    bed = beds.prepared(name)
    packages.install("bench")

    with tempfile.TemporaryDirectory(prefix="rocecoll-bench-") as directory:
        job = Job(
            command=(sys.executable, "-m", "benchmarks.rounds", transport.value, str(rounds)),
            directory=SCRIPTS,
            environment=dict(os.environ),
            limit_s=120 + 240 * rounds,
            out=Path(directory),
        )
        status = bed.run(job)
        if status != 0:
            raise BedError(f"the rounds ended with status {status} (see above)")
        first, *lines = (Path(directory) / "blocks.jsonl").read_text().splitlines()
    kernel = json.loads(first)["kernel"]
    title = f"{transport.value}, {bed.name} bed, Linux {kernel}: medians of {2 * rounds} blocks"
    return title, rows(transport, map(json.loads, lines))
