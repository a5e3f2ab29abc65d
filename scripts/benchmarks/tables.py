# SPDX-License-Identifier: Apache-2.0
"""The tables of scripts/bench: one for each network and number of ranks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

from rich.table import Table

from benchmarks import sizes
from benchmarks.networks import HOST_UDP, Spec, is_network, parse
from benchmarks.operations import Operation
from benchmarks.results import OURS, Figures, Row

COLUMNS = ("operation", "size", "type", "place", "peer", "p50 us", "p99 us")
BANDWIDTHS = ("algbw GB/s", "busbw GB/s", "CPU s/GB", "#wrong")
OF_NETWORKS = ("of loss=0", "dropped", "sent again", "marked")
COMPARED = ("time / ours", "rounds")


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def bounded(figures: Figures, sign: str, text: str) -> str:
    """Whoever gave up would have taken longer."""
    return f"{sign} {text}" if figures.gave_up else text


def time_text(microseconds: float) -> str:
    return f"{microseconds:.1f}" if microseconds < 1000 else f"{microseconds:.0f}"


def short(value: float) -> str:
    """Three digits, and never an exponent."""
    if value >= 1000:
        return f"{value:.0f}"
    return f"{value:.3g}" if value >= 0.001 else f"{value:.3f}"


def ratio_texts(row: Row, peer: str) -> list[str]:
    """A ratio to a lower bound is at least so large; nothing is known of one of a lower bound."""
    if peer == OURS:
        return ["", ""]
    if row.figures(OURS).gave_up:
        return ["-", ""]
    ratio = row.ratio(peer)
    text = bounded(row.figures(peer), ">", f"{ratio.of_medians:.2f}")
    return [text, f"{ratio.least:.2f}-{ratio.most:.2f}"]


def kept_text(row: Row, reference: Row | None, peer: str) -> str:
    """What is left of the bandwidth that the peer has on this network without loss."""
    if reference is None or peer not in reference.blocks:
        return ""
    mine, whole = row.figures(peer), reference.figures(peer)
    return "-" if whole.gave_up else bounded(mine, "<", f"{mine.algbw_gb_s / whole.algbw_gb_s:.2f}")


def spec_of(row: Row) -> Spec | None:
    return parse(row.network) if is_network(row.network) else None


def reference_of(row: Row, all_rows: Iterable[Row]) -> Row | None:
    spec = spec_of(row)
    if spec is None or not spec.loss_percent:
        return None
    lossless = replace(spec, name="", loss_percent=0.0)
    for other in all_rows:
        there = spec_of(other)
        if there is not None and replace(there, name="") == lossless and other.case == row.case:
            return other
    return None


def cells(row: Row, peer: str, reference: Row | None, on_network: bool) -> list[str]:
    figures, case = row.figures(peer), row.case
    found = [
        case.operation.value,
        sizes.text(case.bytes(row.ranks)),
        case.kind,
        "" if case.operation is Operation.barrier else case.place.value,
        peer,
        bounded(figures, ">", time_text(figures.p50_us)),
        bounded(figures, ">", time_text(figures.p99_us)),
        bounded(figures, "<", short(figures.algbw_gb_s)),
        bounded(figures, "<", short(figures.busbw_gb_s)),
        "" if figures.cpu_s_per_gb is None else short(figures.cpu_s_per_gb),
        str(row.wrong[peer]),
    ]
    if on_network:
        found += [kept_text(row, reference, peer), percent(figures.dropped_share)]
        ours = (figures.retransmitted_share, figures.marked_share)
        found += [percent(share) if peer == OURS else "" for share in ours]
    return found + ratio_texts(row, peer)


def where(network: str, ranks: int) -> str:
    if is_network(network):
        return f"2 hosts{f' with {ranks // 2} ranks each' if ranks > 2 else ''}, {network}"
    if ranks == 1:
        return "1 rank"
    return f"{ranks} ranks on one host{', over UDP' if network == HOST_UDP else ''}"


@dataclass(frozen=True)
class Group:
    """The rows of one table."""

    rows: list[Row]

    @property
    def on_network(self) -> bool:
        return is_network(self.rows[0].network)

    @property
    def title(self) -> str:
        return where(self.rows[0].network, self.rows[0].ranks)

    @property
    def rounds(self) -> int:
        return len(self.rows[0].blocks[OURS]) // 2

    @property
    def columns(self) -> list[str]:
        return [*COLUMNS, *BANDWIDTHS, *(OF_NETWORKS if self.on_network else ()), *COMPARED]

    def of_row(self, row: Row, all_rows: list[Row]) -> list[list[str]]:
        reference = reference_of(row, all_rows)
        return [cells(row, peer, reference, self.on_network) for peer in row.blocks]

    def lines(self, all_rows: list[Row]) -> list[list[str]]:
        """`all_rows` of the run, where other networks are that this one is compared with."""
        return [line for row in self.rows for line in self.of_row(row, all_rows)]


def groups(rows: list[Row]) -> list[Group]:
    return [Group(list(some)) for _, some in groupby(rows, lambda row: (row.network, row.ranks))]


def tables(rows: list[Row]) -> Iterable[Table]:
    for group in groups(rows):
        turns = f"{group.rounds} rounds in turn, an operation takes as long as its slowest rank"
        made = Table(title=f"{group.title}: {turns}")
        for column in group.columns:
            made.add_column(column, justify="right", no_wrap=True)
        for row in group.rows:
            for line in group.of_row(row, rows):
                made.add_row(*line)
            made.add_section()
        yield made
