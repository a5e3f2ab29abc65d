# SPDX-License-Identifier: Apache-2.0
"""rocecoll trace: what it makes of the traces of several ranks, and of other files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from launch import environment, run_programs
from made_traces import call, run, write

pytestmark = pytest.mark.quick


@pytest.fixture
def two_ranks(tmp_path: Path) -> list[str]:
    """Rank 1 comes 10 ms late to the first and is first at the second; the third is rank 0's alone."""
    first = [call(1, 0.0, 12.0), call(2, 20.0, 1.0), call(3, 30.0, 5.0, "eval.py:3")]
    return [
        write(tmp_path, 0, first, dropped=2),
        write(tmp_path, 1, [call(1, 10.0, 2.0), call(2, 19.0, 2.0)]),
    ]


def test_what_took_longest_comes_first_and_who_came_last(two_ranks: list[str]) -> None:
    result = run(*two_ranks)
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert lines == [
        "5 calls of 2 ranks",
        "and 2 before them that the traces had no room for",
        "all_reduce on default_pg: 4 calls, 16.0 kB, mean 4.250 ms, max 12.000 ms",
        "train.py:7",
        "all_reduce on default_pg: 1 calls, 4.0 kB, mean 5.000 ms, max 5.000 ms",
        "eval.py:3",
        "rank came last behind the first: median max",
        "0 1 of 2 0.500 ms 1.000 ms",
        "1 1 of 2 5.000 ms 10.000 ms",
    ]


def test_a_rank_that_others_have_kept_is_not_blamed(tmp_path: Path) -> None:
    """Rank 2 is 50 ms late. Rank 1 waits for the first call and rank 0 does not, so rank 1 comes
    last to what follows. Of its delays, 3 and 4 ms are its own.
    """
    files = [
        write(tmp_path, 0, [call(1, 0, 1), call(2, 2, 58), call(3, 3, 58)]),
        write(tmp_path, 1, [call(1, 0, 52), call(2, 53, 7), call(3, 54, 7)]),
        write(tmp_path, 2, [call(1, 50, 1), call(2, 52, 8), call(3, 53, 8)]),
    ]
    found = json.loads(run(*files, "--json").stdout)["lateness"]
    assert [one["last"] for one in found] == [0, 0, 1]
    assert [one["of"] for one in found] == [3, 3, 3]
    assert [one["median_ms"] for one in found] == [0.0, 3.0, 50.0]
    assert [one["max_ms"] for one in found] == [0.0, 4.0, 50.0]


def test_one_rank_is_behind_nobody(two_ranks: list[str]) -> None:
    assert "came last" not in run(two_ranks[0]).output


def test_json_and_one_file_for_all_ranks(two_ranks: list[str], tmp_path: Path) -> None:
    together = tmp_path / "all.json"
    result = run(*two_ranks, "--json", "--merge", str(together))
    found = json.loads(result.stdout)
    assert [kind["calls"] for kind in found["kinds"]] == [4, 1]
    assert found["lateness"][1] == {"rank": 1, "last": 1, "of": 2, "median_ms": 5.0, "max_ms": 10.0}
    assert len(json.loads(together.read_text())["traceEvents"]) == 7


def test_other_files_are_named(two_ranks: list[str], tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"traceEvents": []}')
    result = run(two_ranks[0], str(tmp_path / "other.json"))
    assert result.exit_code == 1
    assert result.output.endswith("other.json is no trace of one rank that rocecoll has written\n")
    result = run(str(tmp_path / "none.json"))
    assert result.exit_code == 1
    assert result.output.endswith("none.json: No such file or directory\n")


@pytest.mark.parametrize(
    "event", [7, {"ph": "X"}, {"ph": "X", "ts": "soon"}, call(1, 0, 5) | {"args": []}]
)
def test_events_of_others_are_told(event: Any, tmp_path: Path) -> None:
    result = run(write(tmp_path, 0, [event]))
    assert result.exit_code == 1
    assert result.output.endswith("is no trace of one rank that rocecoll has written\n")


@pytest.mark.parametrize("option", ["--merge", "--picture"])
def test_a_trace_of_a_rank_is_never_written_over(option: str, two_ranks: list[str]) -> None:
    before = Path(two_ranks[0]).read_text()
    result = run(option, *two_ranks)  # the shell's `--merge trace.*.json`
    assert result.exit_code == 1
    assert result.output.endswith("is the trace of rank 0: name another file to write\n")
    assert Path(two_ranks[0]).read_text() == before


def test_a_trace_that_was_really_written(tmp_path: Path) -> None:
    program = """
import sys, rocecoll, torch, torch.distributed as dist
rocecoll.init()
with rocecoll.trace(sys.argv[1]):
    dist.all_reduce(torch.ones(1000))
"""
    path = str(tmp_path / "trace.json")
    commands = [[sys.executable, "-c", program, path]]
    [made] = run_programs(commands, [environment()])
    assert made.returncode == 0, made.stdout
    commands = [[sys.executable, "-m", "rocecoll", "trace", path.replace(".json", ".0.json")]]
    [shown] = run_programs(commands, [environment()])
    assert shown.returncode == 0, shown.stdout
    assert "all_reduce on default_pg: 1 calls, 4.0 kB" in shown.stdout
