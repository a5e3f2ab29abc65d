# SPDX-License-Identifier: Apache-2.0
"""The results of rocecoll bench: on the terminal, for programs, and what was wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text

import rocecoll
from rocecoll import options
from rocecoll.bench import machine, sizes, tables
from rocecoll.bench.plan import OURS, Plan
from rocecoll.bench.report import Collector
from rocecoll.bench.results import Row, part
from rocecoll.cli import output

WIDEST = 200  # no table is cut off where the terminal is narrower


def show(collector: Collector) -> None:
    console = output.console()
    first = collector.rows[0]
    over = f", over {' and '.join(collector.ways)}" if collector.ways else ""
    rounds = f"{first.rounds} round{'s' if first.rounds > 1 else ''}"
    console.print(Text(f"{first.where}{over}: {rounds}, bandwidths in GB/s", "bold"))
    for heading, table in tables.tables(collector.rows):
        console.print(Text(f"\n{heading}", "bold"))
        unbounded = console.options.update(max_width=WIDEST)
        console.width = max(console.width, console.measure(table, options=unbounded).maximum)
        console.print(table)
    if set(collector.ways) - {"shm"}:
        console.print(f"\n{sent_again(collector.rows)}")


def sent_again(rows: Sequence[Row]) -> str:
    blocks = [block for row in rows for block in row.blocks[OURS]]
    share = part(sum(b.retransmitted for b in blocks), sum(b.sent for b in blocks))
    return f"rocecoll sent {tables.percent(share)} of its packets again"


def all_figures(plan: Plan, collector: Collector) -> dict[str, Any]:
    chosen = {name: options.value_text(given.value) for name, given in options.given().items()}
    return {
        "machine": {**machine.facts(), "rocecoll": rocecoll.__version__},
        "options": chosen,
        "rounds": plan.rounds,
        "block_s": plan.block_s,
        "ways": collector.ways,
        "rows": [row.json() for row in collector.rows],
    }


def problems(rows: Sequence[Row]) -> list[str]:
    found = []
    for row in rows:
        case = f"{tables.heading(row)}, {sizes.text(row.case.bytes(row.ranks))}"
        found += [f"{case}: {peer} got {n} elements wrong" for peer, n in row.wrong.items() if n]
        if row.figures(OURS).gave_up:
            found.append(f"{case}: {OURS} gave up, for the reason above")
    return found
