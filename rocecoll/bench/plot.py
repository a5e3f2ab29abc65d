# SPDX-License-Identifier: Apache-2.0
"""Draws what was measured: latency and bandwidth by size, all peers in one picture."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from rocecoll.bench import sizes, tables
from rocecoll.bench.operations import Case, Operation
from rocecoll.bench.results import Row

WIDTH, HEIGHT = 11.0, 3.4  # inches, of the two panels of one operation
COLOURS = {
    "rocecoll": "#c0392b",
    "core": "#e59866",
    "gloo": "#2471a3",
    "mpi": "#1e8449",
    "mpi-shm": "#58d68d",
    "mpi-ucx": "#8e44ad",
    "raw-udp": "#7f8c8d",
}
SETTINGS: Any = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "rocecoll",  # the same figures make the same file
    "axes.grid": True,
    "grid.alpha": 0.3,
    "font.size": 9,
}


class PlotError(Exception):
    """matplotlib is missing."""


def require(path: Path, cases: Iterable[Case]) -> None:
    """Raises if nothing can be drawn; call it before measuring."""
    if importlib.util.find_spec("matplotlib") is None:
        raise PlotError("pictures need matplotlib, which is not installed: pip install matplotlib")
    from matplotlib.figure import Figure

    known = Figure().canvas.get_supported_filetypes()
    if path.suffix.removeprefix(".") not in known:
        raise PlotError(f"no picture ends so; accepted are {', '.join(sorted(known))}")
    if all(case.operation is Operation.barrier for case in cases):
        raise PlotError("nothing that is measured has a size")


def curves(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    """The rows of one pair of panels, which differ in size alone, and their title."""

    def title(row: Row) -> str:
        return f"{row.where}, {tables.heading(row)}"

    sized = [row for row in rows if row.case.operation is not Operation.barrier]
    return [(name, list(some)) for name, some in groupby(sized, key=title)]


def draw_curves(latency: Any, bandwidth: Any, rows: list[Row]) -> None:
    for peer in dict.fromkeys(peer for row in rows for peer in row.blocks):
        there = [row for row in rows if peer in row.blocks]
        figures = [row.figures(peer) for row in there]
        bytes_ = [row.case.bytes(row.ranks) for row in there]
        style = {"color": COLOURS.get(peer), "marker": ".", "markersize": 5}
        [line] = latency.plot(bytes_, [one.p50_us for one in figures], label=peer, **style)
        tail = {"color": line.get_color(), "linestyle": ":", "linewidth": 1}
        latency.plot(bytes_, [one.p99_us for one in figures], **tail)
        bandwidth.plot(bytes_, [one.busbw_gb_s for one in figures], label=peer, **style)
    for axes in (latency, bandwidth):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: sizes.text(round(value)))
        axes.tick_params(axis="x", rotation=30)
        axes.legend()
    latency.set_yscale("log")
    latency.set_ylabel("us: p50, dotted p99")
    bandwidth.set_ylabel("busbw, GB/s")
    bandwidth.set_ylim(bottom=0)


def draw(rows: Iterable[Row], path: Path) -> None:
    """Writes the picture as SVG, or in the format of the file's suffix."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    pairs = curves(rows)
    with rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH, HEIGHT * len(pairs)), layout="constrained")
        panels = figure.subplots(len(pairs), 2, squeeze=False)
        for (title, some), (latency, bandwidth) in zip(pairs, panels, strict=True):
            draw_curves(latency, bandwidth, some)
            latency.set_title(title, loc="left")
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, metadata=metadata)
