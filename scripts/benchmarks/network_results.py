# SPDX-License-Identifier: Apache-2.0
"""What scripts/bench --network makes of the blocks of network_rank.py."""

from __future__ import annotations

from dataclasses import dataclass

from rich.table import Table

from benchmarks.cases import size_text

BACKENDS = ("rocecoll", "gloo")
ORDER = (*BACKENDS, *reversed(BACKENDS))
REFERENCE = "loss-0"


@dataclass
class Block:
    """An iteration is done when both ranks are. Counters are of both ranks together."""

    iterations: int = 0
    seconds: float = 0.0
    gave_up: bool = False
    packets: int = 0  # of any program, on their way to where the network drops
    dropped: int = 0
    sent: int = 0  # rocecoll's
    retransmitted: int = 0
    marked: int = 0


@dataclass(frozen=True)
class Figure:
    """All blocks of a backend: the mean over time. `gave_up` makes the rate an upper bound."""

    bytes_per_s: float
    gave_up: bool
    dropped_share: float
    retransmitted_share: float
    marked_share: float

    @property
    def text(self) -> str:
        return f"{'< ' if self.gave_up else ''}{self.bytes_per_s / 1e6:.4g}"


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def figure(blocks: list[Block], size_bytes: int) -> Figure:
    gave_up = any(block.gave_up for block in blocks)
    # The iteration that was given up would have been one more at the best.
    iterations = sum(block.iterations + block.gave_up for block in blocks)
    return Figure(
        iterations * size_bytes / sum(block.seconds for block in blocks),
        gave_up,
        share(sum(b.dropped for b in blocks), sum(b.packets for b in blocks)),
        share(sum(b.retransmitted for b in blocks), sum(b.sent for b in blocks)),
        share(sum(b.marked for b in blocks), sum(b.sent for b in blocks)),
    )


def ratio_text(ours: Figure, theirs: Figure) -> str:
    """A ratio to an upper bound is at least so large."""
    if ours.gave_up:
        return "-"
    return f"{'> ' if theirs.gave_up else ''}{ours.bytes_per_s / theirs.bytes_per_s:.2f}"


def round_ratios(blocks: dict[str, list[Block]], size_bytes: int) -> list[float]:
    """Of each A B B A."""
    ratios = []
    for first in range(0, len(blocks["rocecoll"]), 2):
        ours, theirs = (
            figure(blocks[name][first : first + 2], size_bytes) for name in ("rocecoll", "gloo")
        )
        ratios.append(ours.bytes_per_s / theirs.bytes_per_s)
    return ratios


@dataclass(frozen=True)
class Row:
    network: str
    operation: str
    size_bytes: int
    blocks: dict[str, list[Block]]

    @classmethod
    def read(cls, line: dict) -> Row:
        blocks = {
            name: [Block(**block) for block in blocks] for name, blocks in line["blocks"].items()
        }
        return cls(line["network"], line["operation"], line["size_bytes"], blocks)

    def figure(self, backend: str) -> Figure:
        return figure(self.blocks[backend], self.size_bytes)


def kept_text(row: Row, reference: Row | None, backend: str) -> str:
    """What is left of the rate that the backend has without loss."""
    if reference is None or not row.network.startswith("loss-"):
        return ""
    mine, whole = row.figure(backend), reference.figure(backend)
    if whole.gave_up:
        return "-"
    return f"{'< ' if mine.gave_up else ''}{mine.bytes_per_s / whole.bytes_per_s:.2f}"


def table(rows: list[Row], title: str) -> Table:
    made = Table(title=title)
    columns = ["network", "operation", "size"]
    for name in BACKENDS:
        columns += [f"{name} MB/s", f"of {REFERENCE}", "dropped"]
        columns += ["sent again", "marked"] if name == "rocecoll" else []
    for column in (*columns, "rocecoll/gloo", "rounds"):
        made.add_column(column, justify="right", no_wrap=True)
    references = {(row.operation, row.size_bytes): row for row in rows if row.network == REFERENCE}
    for row in rows:
        reference = references.get((row.operation, row.size_bytes))
        cells = [row.network, row.operation, size_text(row.size_bytes)]
        for name in BACKENDS:
            mine = row.figure(name)
            cells += [mine.text, kept_text(row, reference, name), percent(mine.dropped_share)]
            if name == "rocecoll":
                cells += [percent(mine.retransmitted_share), percent(mine.marked_share)]
        ratios = round_ratios(row.blocks, row.size_bytes)
        cells += [ratio_text(row.figure("rocecoll"), row.figure("gloo"))]
        made.add_row(*cells, f"{min(ratios):.2f}-{max(ratios):.2f}")
    return made
