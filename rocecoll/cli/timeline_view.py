# SPDX-License-Identifier: Apache-2.0
"""A timeline on the terminal: a line of characters for each rank."""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from rocecoll.diagnosis.traces.timeline import Bar, Lane, compose, duration_text
from rocecoll.diagnosis.traces.trace_files import Trace, Window

MOST_LANES = 64
_IDLE, _WAITS = " ", "."
_LEAST_SHARE = 1e-6  # of a cell: less comes from rounding
_COLOURS = ("blue", "yellow", "green", "magenta", "cyan", "red")


def show(traces: Sequence[Trace], window: Window, console: Console) -> None:
    shown = traces[:MOST_LANES]
    label = max(len(str(trace.rank)) for trace in shown) + 1
    cells = console.width - label
    cell_s = (window.to_s - window.from_s) / cells
    timeline = compose(shown, window, cell_s, MOST_LANES * cells)
    letters = dict(zip(timeline.operations, string.ascii_uppercase + "?" * 100, strict=False))
    console.print(
        Text(
            f"from {window.from_s:.6g} s to {window.to_s:.6g} s, {duration_text(cell_s)} each: "
            + ", ".join(f"{letter} {name}" for name, letter in letters.items())
            + f", {_WAITS} until the last rank came"
        )
    )
    for lane in timeline.lanes:
        line = Text(f"{lane.rank:>{label - 1}} ")
        for character in _cells(lane, window, cells, letters):
            line.append(character, _style(character, letters))
        console.print(line, no_wrap=True)
    if len(traces) > MOST_LANES:
        console.print(f"and {len(traces) - MOST_LANES} further ranks: --picture has them all")
    for wait in timeline.waits:
        console.print(
            f"rank {wait.late_rank} came {duration_text(wait.duration_s)} after rank "
            f"{wait.first_rank} to {wait.operation}, at {wait.until_s:.6g} s"
        )


def _cells(lane: Lane, window: Window, cells: int, letters: dict[str, str]) -> list[str]:
    """The character of each cell: that of the operation or wait that took most of its time, if any."""
    cell_s = (window.to_s - window.from_s) / cells
    shares: list[dict[str, float]] = [{} for _ in range(cells)]
    for bar in (bar for row in lane.rows for bar in row):
        for character, begin_s, end_s in _parts(bar, letters):
            begin, end = (max(time_s - window.from_s, 0.0) / cell_s for time_s in (begin_s, end_s))
            for cell in range(int(begin), min(int(end) + 1, cells)):
                share = min(end, cell + 1) - max(begin, cell)
                if share > _LEAST_SHARE:
                    shares[cell][character] = shares[cell].get(character, 0.0) + share
    return [max(share, key=lambda one: share[one]) if share else _IDLE for share in shares]


def _parts(bar: Bar, letters: dict[str, str]) -> Iterable[tuple[str, float, float]]:
    came_s = bar.begin_s + bar.waited_s
    if bar.waited_s > 0:
        yield _WAITS, bar.begin_s, came_s
    yield letters[bar.operation], came_s, bar.end_s


def _style(character: str, letters: dict[str, str]) -> str:
    if character not in string.ascii_uppercase:
        return "dim"
    return _COLOURS[string.ascii_uppercase.index(character) % len(_COLOURS)]
