# SPDX-License-Identifier: Apache-2.0
"""The figures as tables of 80 columns, one for rows that differ only in size; and formats of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from rich.table import Table

from rocecoll.bench import sizes
from rocecoll.bench.operations import Operation, Place
from rocecoll.bench.plan import OURS
from rocecoll.bench.results import Figures, Row

PLACE_WORDS = {Place.in_place: "in place", Place.out_of_place: "out of place"}
COLUMNS = ("size", "peer", "p50 us", "p99 us", "algbw", "busbw", "wrong", "time / ours")


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def bounded(figures: Figures, sign: str, text: str) -> str:
    """Marks a bound: a peer that gave up would have taken longer."""
    return f"{sign} {text}" if figures.gave_up else text


def time_text(microseconds: float) -> str:
    return f"{microseconds:.1f}" if microseconds < 1000 else f"{microseconds:.0f}"


def short(value: float) -> str:
    """Three digits, and never an exponent."""
    if value >= 1000:
        return f"{value:.0f}"
    return f"{value:.3g}" if value >= 0.001 else f"{value:.3f}"


def hundredths(value: float) -> str:
    return f"{value:.2f}"


def ratio_texts(row: Row, peer: str, text: Callable[[float], str] = hundredths) -> list[str]:
    """A peer's lower bound makes the ratio one, too; with one of rocecoll's nothing is known."""
    if peer == OURS:
        return ["", ""]
    if row.figures(OURS).gave_up:
        return ["-", ""]
    ratio = row.ratio(peer)
    of_medians = bounded(row.figures(peer), ">", text(ratio.of_medians))
    return [of_medians, f"{text(ratio.least)}-{text(ratio.most)}"]


def figure_texts(row: Row, peer: str) -> list[str]:
    """Times and bandwidths. With few calls the tail is p95: a block that also computes has few."""
    figures = row.figures(peer)
    tail_us = figures.p95_us if row.case.after_ms else figures.p99_us
    return [
        bounded(figures, ">", time_text(figures.p50_us)),
        bounded(figures, ">", time_text(tail_us)),
        bounded(figures, "<", short(figures.algbw_gb_s)),
        bounded(figures, "<", short(figures.busbw_gb_s)),
    ]


def heading(row: Row) -> str:
    """The heading of the rows that differ from this one only in size."""
    name = row.case.operation.value
    if row.case.operation is Operation.barrier:
        return name
    return f"{name}, {row.case.kind}, {PLACE_WORDS[row.case.place]}"


def lines(row: Row) -> Iterator[list[str]]:
    for number, peer in enumerate(row.blocks):
        size = "" if number else sizes.text(row.case.bytes(row.ranks))
        ratio, rounds = ratio_texts(row, peer, short)
        compared = f"{ratio} ({rounds})" if rounds else ratio
        yield [size, peer, *figure_texts(row, peer), str(row.wrong[peer]), compared]


def tables(rows: Iterable[Row]) -> Iterator[tuple[str, Table]]:
    """All tables, each with its heading."""
    for title, some in groupby(rows, heading):
        made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
        for column in COLUMNS:
            made.add_column(column, justify="left" if column == "peer" else "right", no_wrap=True)
        for row in some:
            for line in lines(row):
                made.add_row(*line)
        yield title, made
