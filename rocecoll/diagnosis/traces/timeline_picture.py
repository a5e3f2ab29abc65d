# SPDX-License-Identifier: Apache-2.0
"""Draws a timeline as SVG: readable on light and on dark, by eyes that confuse red and green."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from rocecoll.diagnosis.traces.delays import Lateness, lateness
from rocecoll.diagnosis.traces.timeline import Bar, Lane, Timeline, Wait, compose, duration_text
from rocecoll.diagnosis.traces.trace_files import Trace, TraceError, Window, meetings

MOST_BARS = 20_000  # enough for a file of a few megabytes
_PLOT_PX = 960
_LEFT_PX, _RIGHT_PX = 80, 240
_WIDTH_PX = _LEFT_PX + _PLOT_PX + _RIGHT_PX
_HEAD_PX, _AXIS_PX, _LINE_PX, _MARGIN_PX = 64, 40, 18, 12
_LANES_PX = 600  # that lanes share, unless they would be too low or too high
_LEAST_LANE_PX, _MOST_LANE_PX = 5, 36
_TEXT_PX = 12
_CHARACTER_PX = 7  # about
# Okabe and Ito's, then one for all further operations.
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8c6bb1", "#999999")
_STYLE = """\
text { font: 12px sans-serif; fill: #1f2328 }
.paper { fill: #ffffff }
.lane { fill: #f3f4f6 }
.grid { stroke: #d0d7de; stroke-width: 1 }
.late { fill: #c1121f }
.delay { stroke: #c1121f; stroke-width: 1; stroke-dasharray: 3 3 }
.waits { opacity: 0.4 }
.failed { stroke: #c1121f; stroke-width: 2 }
.end { text-anchor: end }
.middle { text-anchor: middle }
.title { font-weight: bold }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.paper { fill: #0d1117 }
.lane { fill: #1a2029 }
.grid { stroke: #3d444d }
.late { fill: #ff7b72 }
.delay { stroke: #ff7b72 }
}"""


def write_picture(traces: Sequence[Trace], window: Window, path: Path) -> None:
    """One lane per rank, time to the right; TraceError where it cannot be written."""
    grain_s = (window.to_s - window.from_s) / _PLOT_PX
    timeline = compose(traces, window, grain_s, MOST_BARS)
    late = {one.rank: one for one in lateness(meetings(traces))}
    try:
        path.write_text("\n".join(_document(timeline, late)) + "\n", encoding="utf-8")
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from None


def _document(timeline: Timeline, late: dict[int, Lateness]) -> Iterator[str]:
    place = _Place(timeline.window, len(timeline.lanes))
    below_px = place.bottom_px + _AXIS_PX
    height_px = below_px + _LINE_PX * len(timeline.waits) + _MARGIN_PX
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH_PX} {height_px:g}" '
        f'width="{_WIDTH_PX}" height="{height_px:g}" role="img">'
    )
    yield "<style>"
    yield _STYLE
    yield from (f".c{i} {{ fill: {colour} }}" for i, colour in enumerate(_COLOURS))
    yield "</style>"
    yield f'<rect class="paper" width="{_WIDTH_PX}" height="{height_px:g}"/>'
    yield _text(_LEFT_PX, 22, _title(timeline), "title")
    yield from _legend(timeline.operations)
    yield from _axis(place)
    for number, lane in enumerate(timeline.lanes):
        yield from _lane(place, number, lane, late.get(lane.rank), timeline.operations)
    yield from _waits(place, timeline, below_px)
    yield "</svg>"


class _Place:
    """The positions of times and lanes in the picture."""

    def __init__(self, window: Window, lanes: int) -> None:
        self.window = window
        self.lane_px = min(max(_LANES_PX / lanes, _LEAST_LANE_PX), _MOST_LANE_PX)
        self.bottom_px = _HEAD_PX + lanes * self.lane_px
        self._px_of_s = _PLOT_PX / (window.to_s - window.from_s)

    def x(self, time_s: float) -> float:
        inside_s = min(max(time_s, self.window.from_s), self.window.to_s)
        return _LEFT_PX + (inside_s - self.window.from_s) * self._px_of_s

    def y(self, lane: int) -> float:
        return _HEAD_PX + lane * self.lane_px

    def has_label(self, lane: int) -> bool:
        """Every lane has a label, unless lanes are lower than letters."""
        return lane % math.ceil(_TEXT_PX / self.lane_px) == 0


def _title(timeline: Timeline) -> str:
    window = timeline.window
    ranks = f"{len(timeline.lanes)} rank{'s' if len(timeline.lanes) > 1 else ''}"
    return f"{ranks}, {window.from_s:.6g} s to {window.to_s:.6g} s after the first call"


def _colour(operation: str, operations: Sequence[str]) -> str:
    return f"c{min(operations.index(operation), len(_COLOURS) - 1)}"


def _legend(operations: Sequence[str]) -> Iterator[str]:
    own = len(_COLOURS) - 1
    names = [*operations[:own], *(["others"] if len(operations) > own else [])]
    entries = [(f"c{number}", name) for number, name in enumerate(names)]
    x = _LEFT_PX
    for style, text in (*entries, ("c0 waits", "pale: until the last rank came")):
        yield f'<rect class="{style}" x="{x}" y="34" width="12" height="12"/>'
        yield _text(x + 18, 44, text)
        x += 40 + _CHARACTER_PX * len(text)


def _axis(place: _Place) -> Iterator[str]:
    window, bottom_px = place.window, place.bottom_px
    step_s = _round_step((window.to_s - window.from_s) / 8)
    tick = math.ceil(window.from_s / step_s - 1e-9)
    while tick * step_s <= window.to_s:
        x = place.x(tick * step_s)
        yield (
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_HEAD_PX}" y2="{bottom_px + 4:g}"/>'
        )
        yield _text(x, bottom_px + 18, f"{tick * step_s:.6g} s", "middle")
        tick += 1


def _round_step(step_s: float) -> float:
    """1, 2 or 5 times a power of ten, at least `step_s`."""
    power = 10.0 ** math.floor(math.log10(step_s))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step_s * 0.999)


def _lane(
    place: _Place, number: int, lane: Lane, late: Lateness | None, operations: Sequence[str]
) -> Iterator[str]:
    top_px, lane_px = place.y(number), place.lane_px
    if number % 2 == 0:
        yield (
            f'<rect class="lane" x="{_LEFT_PX}" y="{top_px:g}" width="{_PLOT_PX}" '
            f'height="{lane_px:g}"/>'
        )
    middle_px = top_px + lane_px / 2 + 4
    if place.has_label(number):
        yield _text(_LEFT_PX - 8, middle_px, f"rank {lane.rank}", "end")
        if late is not None:
            text = f"last {late.last} of {late.of}, up to {duration_text(late.max_ms / 1e3)} late"
            yield _text(_LEFT_PX + _PLOT_PX + 8, middle_px, text)
    row_px = lane_px * 0.8 / max(len(lane.rows), 1)
    for row, bars in enumerate(lane.rows):
        y = top_px + lane_px * 0.1 + row * row_px
        for bar in bars:
            yield _bar(place, bar, y, row_px, _colour(bar.operation, operations))


def _bar(place: _Place, bar: Bar, y: float, height_px: float, colour: str) -> str:
    begin, end = place.x(bar.begin_s), place.x(bar.end_s)
    came = min(place.x(bar.begin_s + bar.waited_s), end)
    end = max(end, begin + 0.5)  # the shortest are seen, too
    drawn = "".join(
        f'<rect{style} x="{left:.1f}" y="{y:.1f}" width="{right - left:.1f}" '
        f'height="{height_px:.1f}"/>'
        for left, right, style in ((begin, came, ' class="waits"'), (came, end, ""))
        if right - left >= 0.1
    )
    failed = " failed" if bar.failed else ""
    return f'<g class="{colour}{failed}"><title>{_escaped(bar.text)}</title>{drawn}</g>'


def _waits(place: _Place, timeline: Timeline, below_px: float) -> Iterator[str]:
    """A line where each late rank came, and below the picture a line of text about the wait for it."""
    lanes = {lane.rank: number for number, lane in enumerate(timeline.lanes)}
    for number, wait in enumerate(timeline.waits, 1):
        x, y = place.x(wait.until_s), place.y(lanes[wait.late_rank])
        yield (
            f'<line class="delay" x1="{x:.1f}" x2="{x:.1f}" y1="{_HEAD_PX - 2}" '
            f'y2="{place.bottom_px:g}"/>'
        )
        middle_px = y + place.lane_px / 2
        yield f'<path class="late" d="M{x:.1f} {middle_px:.1f}l-8 -5v10z"/>'
        yield _text(x, _HEAD_PX - 5, str(number), "late middle")
        yield _text(_LEFT_PX, below_px + number * _LINE_PX - 4, f"{number} {_wait_text(wait)}")


def _wait_text(wait: Wait) -> str:
    text = (
        f"{wait.operation}: rank {wait.late_rank} came {duration_text(wait.duration_s)} after rank "
        f"{wait.first_rank}, at {wait.until_s:.6g} s" + (f"; {wait.place}" if wait.place else "")
    )
    return textwrap.shorten(text, (_WIDTH_PX - _LEFT_PX) // _CHARACTER_PX, placeholder=" ...")


def _text(x: float, y: float, text: str, style: str = "") -> str:
    attribute = f' class="{style}"' if style else ""
    return f'<text{attribute} x="{x:.1f}" y="{y:.1f}">{_escaped(text)}</text>'


def _escaped(text: str) -> str:
    """XML has no way to write control characters, which paths may have."""
    return escape("".join(one if one.isprintable() else " " for one in text), quote=False)
