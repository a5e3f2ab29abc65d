# SPDX-License-Identifier: Apache-2.0
"""The tables of scripts/bench: one for each network and number of ranks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

from rich.table import Table

from benchmarks.network_spec import Spec, is_network, parse
from rocecoll.bench import sizes
from rocecoll.bench.operations import Operation
from rocecoll.bench.plan import OURS
from rocecoll.bench.results import Figures, Row
from rocecoll.bench.tables import bounded, figure_texts, percent, ratio_texts, short

COLUMNS = ("operation", "size", "type", "place", "peer", "p50 us")
BANDWIDTHS = ("algbw GB/s", "busbw GB/s", "CPU s/GB", "#wrong")
OF_NETWORKS = ("of loss=0", "dropped", "sent again", "marked")
BESIDE = ("TCP GB/s",)  # the bandwidth of the network's other flows meanwhile
COMPARED = ("time / ours", "rounds")


def kept_text(row: Row, reference: Row | None, peer: str) -> str:
    """The share of its bandwidth on the same network without loss that the peer still has."""
    if reference is None or peer not in reference.blocks:
        return ""
    mine, whole = row.figures(peer), reference.figures(peer)
    return "-" if whole.gave_up else bounded(mine, "<", f"{mine.algbw_gb_s / whole.algbw_gb_s:.2f}")


def dropped_text(figures: Figures, spec: Spec) -> str:
    """A bucket that takes messages of several packets whole counts each that it drops as one packet: the
    packets were more, and where the messages were large, many more."""
    text = percent(figures.dropped_share)
    if figures.dropped_share == 0 or spec.drop_bytes < 2 * spec.frame_bytes:
        return text
    return "-" if spec.drops_messages else f"> {text}"


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


def cells(row: Row, peer: str, reference: Row | None) -> list[str]:
    figures, case, spec = row.figures(peer), row.case, spec_of(row)
    found = [
        case.operation.value,
        sizes.text(case.bytes(row.ranks)),
        case.kind,
        "" if case.operation is Operation.barrier else case.place.value,
        peer,
        *figure_texts(row, peer),
        "" if figures.cpu_s_per_gb is None or case.after_ms else short(figures.cpu_s_per_gb),
        str(row.wrong[peer]),
    ]
    if spec is not None:
        found += [kept_text(row, reference, peer), dropped_text(figures, spec)]
        ours = (figures.retransmitted_share, figures.marked_share)
        found += [percent(share) if peer == OURS else "" for share in ours]
        found += [short(figures.others_gb_s)] if spec.flows else []
    return found + ratio_texts(row, peer)


@dataclass(frozen=True)
class Group:
    """The rows of one table."""

    rows: list[Row]

    @property
    def title(self) -> str:
        return self.rows[0].where

    @property
    def rounds(self) -> int:
        return self.rows[0].rounds

    @property
    def columns(self) -> list[str]:
        spec = spec_of(self.rows[0])
        beside = BESIDE if spec is not None and spec.flows else ()
        of_network = (*OF_NETWORKS, *beside) if spec is not None else ()
        tail = "p95 us" if self.rows[0].case.after_ms else "p99 us"
        return [*COLUMNS, tail, *BANDWIDTHS, *of_network, *COMPARED]

    def of_row(self, row: Row, all_rows: list[Row]) -> list[list[str]]:
        reference = reference_of(row, all_rows)
        return [cells(row, peer, reference) for peer in row.blocks]

    def lines(self, all_rows: list[Row]) -> list[list[str]]:
        """`all_rows` are those of the run, including networks that this one is compared with."""
        return [line for row in self.rows for line in self.of_row(row, all_rows)]


def groups(rows: list[Row]) -> list[Group]:
    return [Group(list(some)) for _, some in groupby(rows, lambda row: row.where)]


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
