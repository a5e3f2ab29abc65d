# SPDX-License-Identifier: Apache-2.0
"""rocecoll trace --picture and --timeline: where each rank is drawn, and which one is named as
late."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from made_traces import call, run, write

from rocecoll.diagnosis.traces import timeline, trace_files

pytestmark = pytest.mark.quick
SVG = "{http://www.w3.org/2000/svg}"
LEFT_PX, PLOT_PX = 80, 960


class Picture:
    """What an SVG file shows."""

    def __init__(self, path: Path) -> None:
        self.bytes = path.stat().st_size
        self.root = ElementTree.fromstring(path.read_text())
        self.texts = [element.text or "" for element in self.root.iter(f"{SVG}text")]
        self.bars = list(self.root.iter(f"{SVG}g"))
        self.tips = [bar.findtext(f"{SVG}title") or "" for bar in self.bars]

    def parts(self, bar: int) -> list[tuple[str, float, float]]:
        """Style, begin and length of each part; the last two as shares of the time shown."""
        return [
            (
                part.get("class", ""),
                round((float(part.attrib["x"]) - LEFT_PX) / PLOT_PX, 3),
                round(float(part.attrib["width"]) / PLOT_PX, 3),
            )
            for part in self.bars[bar].iter(f"{SVG}rect")
        ]

    def delays(self) -> list[str]:
        return [text for text in self.texts if " came " in text]


def draw(tmp_path: Path, *ranks: list[dict[str, Any]], more: tuple[str, ...] = ()) -> Picture:
    files = [write(tmp_path, rank, calls) for rank, calls in enumerate(ranks)]
    target = tmp_path / "out.svg"
    result = run(*files, "--picture", str(target), *more)
    assert result.exit_code == 0, result.output
    return Picture(target)


def test_bars_and_the_late_rank(tmp_path: Path) -> None:
    """Rank 1 comes 60 ms late to the first, and both are at the second at once."""
    picture = draw(
        tmp_path,
        [call(1, 0, 80), call(2, 90, 10)],
        [call(1, 60, 20), call(2, 90, 10, name="broadcast")],
    )
    assert [text for text in picture.texts if text.startswith("rank ")] == ["rank 0", "rank 1"]
    assert picture.parts(0) == [("waits", 0.0, 0.6), ("", 0.6, 0.2)]
    assert picture.parts(1) == [("", 0.9, 0.1)]
    assert picture.parts(2) == [("", 0.6, 0.2)]
    assert picture.tips[0] == (
        "all_reduce #1 on default_pg: 80 ms, of these 60 ms until rank 1 came; train.py:7"
    )
    assert picture.delays() == [
        "1 all_reduce #1 on default_pg: rank 1 came 60 ms after rank 0, at 0.06 s; train.py:7"
    ]
    assert len(list(picture.root.iter(f"{SVG}path"))) == 1  # a mark for the label
    assert "last 1 of 2, up to 60 ms late" in picture.texts


def test_each_operation_has_its_colour(tmp_path: Path) -> None:
    names = [f"operation_{number}" for number in range(9)]
    calls = [call(i, 10 * i, 9 - i) | {"name": name} for i, name in enumerate(names)]
    picture = draw(tmp_path, calls)
    colours = [bar.attrib["class"] for bar in picture.bars]
    assert colours == ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c6", "c6"]
    assert [text for text in picture.texts if text in names] == names[:6]
    assert "others" in picture.texts


def test_a_delay_is_told_once_and_not_of_those_who_suffer_it(tmp_path: Path) -> None:
    """Rank 2 is 50 ms late. Rank 1 waits for the broadcast and rank 0 does not, so rank 1 comes
    late to what follows.
    """
    picture = draw(
        tmp_path,
        [call(1, 0, 1), call(2, 2, 58), call(3, 3, 58)],
        [call(1, 0, 52), call(2, 53, 7), call(3, 54, 7)],
        [call(1, 50, 1), call(2, 52, 8), call(3, 53, 8)],
    )
    [delay] = picture.delays()
    assert delay.startswith("1 all_reduce #1 on default_pg: rank 2 came 50 ms after rank 0")


def test_calls_that_overlap_lie_one_below_the_other(tmp_path: Path) -> None:
    picture = draw(tmp_path, [call(1, 0, 10), call(2, 5, 10), call(3, 12, 3)])
    rows = [{part.attrib["y"] for part in bar.iter(f"{SVG}rect")} for bar in picture.bars]
    assert rows[0] == rows[1] != rows[2]  # by row: the third follows the first
    assert picture.tips[1].startswith("all_reduce #3")


def test_many_short_calls_are_joined_and_none_is_lost(tmp_path: Path) -> None:
    calls = 50_000
    picture = draw(tmp_path, [call(number, 0.02 * number, 0.01) for number in range(calls)])
    assert len(picture.bars) <= PLOT_PX and picture.bytes < 250_000
    counts = [int(tip.split()[0]) if " calls in " in tip else 1 for tip in picture.tips]
    assert sum(counts) == calls


def test_many_ranks_stay_within_bounds(tmp_path: Path) -> None:
    files = [
        write(tmp_path, rank, [call(number, number * 10, 6) for number in range(90)])
        for rank in range(300)
    ]
    read = trace_files.read_all(map(Path, files))
    window = trace_files.choose_window(read, None, None)
    made = timeline.compose(read, window, 1e-3, most_bars=20_000)
    bars = [bar for lane in made.lanes for row in lane.rows for bar in row]
    assert len(bars) <= 20_000 and sum(bar.calls for bar in bars) == 27_000
    target = tmp_path / "out.svg"
    assert run(*files, "--picture", str(target)).exit_code == 0
    picture = Picture(target)
    labels = [text for text in picture.texts if text.startswith("rank ")]
    assert labels[:2] == ["rank 0", "rank 3"] and len(labels) == 100
    assert float(picture.root.attrib["height"]) < 1700


def test_only_the_part_that_is_asked_for(tmp_path: Path) -> None:
    calls = [call(number, 100 * number, 60) for number in range(10)]
    window = ("--from-s", "0.33", "--to-s", "0.43")
    picture = draw(tmp_path, calls, more=window)
    assert [tip.partition(" on ")[0] for tip in picture.tips] == ["all_reduce #3", "all_reduce #4"]
    assert picture.parts(0) == [("", 0.0, 0.3)] and picture.parts(1) == [("", 0.7, 0.3)]
    assert {"0.34 s", "0.42 s"} <= set(picture.texts)
    assert run(str(tmp_path / "trace.0.json"), *window).output.startswith("2 calls of 1 rank\n")


def test_names_of_the_program_cannot_break_the_file(tmp_path: Path) -> None:
    calls = [call(1, 0, 5, "</title><script>&\x01\n.py:1"), call(2, 6, 1, "x" * 1000, error="<")]
    picture = draw(tmp_path, calls, [call(1, 4, 1), call(2, 6, 1)])
    assert picture.tips[0].endswith("; </title><script>&  .py:1")
    assert picture.tips[1].endswith("; failed: <")
    assert "failed" in picture.bars[1].attrib["class"]


def test_parts_of_the_world_with_one_name_are_not_compared(tmp_path: Path) -> None:
    """torch calls all groups of new_group() "undefined", and those of a mesh by its dimension."""
    for rank in range(2):
        group = {"group": str(rank), "description": "undefined", "global_ranks": [rank]}
        write(tmp_path, rank, [call(1, 10 * rank, 5, **group)])
    read = trace_files.read_all([tmp_path / "trace.0.json", tmp_path / "trace.1.json"])
    assert trace_files.meetings(read) == []
    assert [kind.group for kind in trace_files.kinds(read)] == ["group 0", "group 1"]


def test_a_group_that_is_made_again_is_another_one(tmp_path: Path) -> None:
    for rank in range(2):
        write(tmp_path, rank, [call(1, rank, 5), call(1, 1000 + rank, 5)])
    met = trace_files.meetings(
        trace_files.read_all([tmp_path / f"trace.{rank}.json" for rank in range(2)])
    )
    assert [meeting.behind_us(1) for meeting in met] == [1000.0, 1000.0]


def test_what_cannot_be_drawn_is_said(tmp_path: Path) -> None:
    file = write(tmp_path, 0, [call(1, 0, 5)])
    result = run(file, file)
    assert result.exit_code == 1
    assert "are both of rank 0: give the files of one job, each once" in result.output
    result = run(file, "--from-s", "7")
    assert result.exit_code == 1
    assert "no call runs between 7 s and 7 s: the last one ends 0.005 s after" in result.output
    result = run(file, "--from-s", "2", "--to-s", "1")
    assert result.exit_code == 2
    assert "--to-s 1 is not after --from-s 2" in result.output
    result = run(file, "--to-s", "inf", "--picture", str(tmp_path / "out.svg"))
    assert result.exit_code == 2
    assert "--to-s" in result.output
    result = run(file, "--picture", str(tmp_path / "none" / "out.svg"))
    assert result.exit_code == 1
    assert result.output.endswith("out.svg: No such file or directory\n")
    empty = write(tmp_path, 1, [])
    assert "there is no call in these traces" in run(empty).output


def test_a_timeline_on_the_terminal(tmp_path: Path) -> None:
    """80 columns: two for the rank, and 78 cells of a millisecond."""
    files = [
        write(tmp_path, 0, [call(1, 0, 40), call(2, 60, 18)]),
        write(tmp_path, 1, [call(1, 30, 10), call(2, 60, 18) | {"name": "broadcast"}]),
    ]
    result = run(*files, "--timeline")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    start = lines.index(
        "from 0 s to 0.078 s, 1 ms each: A all_reduce, B broadcast, . until the last rank"
    )
    assert lines[start + 1 :] == [
        "came",
        "0 " + "." * 30 + "A" * 10 + " " * 20 + "A" * 18,
        "1 " + " " * 30 + "A" * 10 + " " * 20 + "B" * 18,
        "rank 1 came 30 ms after rank 0 to all_reduce #1 on default_pg, at 0.03 s",
    ]
