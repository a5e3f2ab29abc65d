# SPDX-License-Identifier: Apache-2.0
"""rocecoll status: what it shows of the processes' answers, and how it ends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import rocecoll.cli.status
from rocecoll.cli.app import app
from rocecoll.diagnosis.jobs.processes import Process

pytestmark = pytest.mark.quick


def process(rank: int, called: int, **more: Any) -> Process:
    state = {
        "id": 7,
        "name": "0",
        "ranks": 3,
        "global_rank": rank,
        "collectives": called,
        "last": f"barrier #{called}",
        "running": "",
        "running_for_s": 0.0,
        "waits_for": [],
        "failure": "",
    }
    way = {
        "group": "0",
        "rank": 1 - rank,
        "path": "udp",
        "in_use": True,
        "bytes_sent": 4_300_000,
        "bytes_received": 12,
        "packets_retransmitted": 3,
        "rtt_us": 41.7,
        "congestion_window_bytes": 120_000,
        "last_heard_s": None,
    }
    return Process(100 + rank, {"groups": [state | more], "peers": [way]})


WAITING = {"running": "all_reduce #5 (SUM, float32, 8 elements)", "running_for_s": 12.34}
STUCK = [process(0, 5, **WAITING, waits_for=[1, 2]), process(1, 4)]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    """What the processes of this host say, for the test to fill."""
    processes: list[Process] = []
    monkeypatch.setattr(rocecoll.cli.status, "ask_all", lambda: processes)
    return processes


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["status", *arguments], env={"COLUMNS": "80"})


def test_nobody_is_there(told: list[Process]) -> None:
    result = run()
    assert result.exit_code == 0
    assert result.output == "no process of rocecoll runs here (that you may ask)\n"


def test_a_stuck_group_is_a_table_and_the_rank_to_look_at(told: list[Process]) -> None:
    told += STUCK
    result = run()
    assert result.exit_code == 1
    lines = [line.rstrip() for line in result.output.splitlines()]
    assert lines[0] == "group '0', 3 ranks, 2 of them here"
    assert lines[1].split() == ["rank", "process", "called", "runs", "for", "waits", "for"]
    assert lines[2].split()[:4] == ["0", "100", "5", "all_reduce"]
    assert "12.3 s  1 2" in lines[2]
    assert lines[-3].startswith("group '0': rank 1 has called 4 collectives where others have")
    assert "- (last barrier #4)" in result.output
    assert all(len(line) <= 80 for line in lines)


def test_a_group_that_a_rank_does_not_make_is_shown_with_who_is_missing(
    told: list[Process],
) -> None:
    state = {"name": "9", "ranks": 4, "global_rank": 2, "waits_for": [5, 6], "for_s": 12.34}
    answer = process(0, 4).answer
    assert answer is not None
    told.append(Process(100, {**answer, "forming": [state]}))
    result = run()
    assert result.exit_code == 1
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "2 100 9 4 12.3 s 5-6" in lines
    assert lines[-1] == "group '9': rank 2 makes the group, and waits for ranks 5-6 to make it, too"
    state["for_s"] = 0.5
    assert run().exit_code == 0, "nobody waits long"


def test_peers_are_shown_when_asked_for(told: list[Process]) -> None:
    told += [process(0, 4)]
    assert "udp" not in run().output
    lines = run("--peers").output.splitlines()
    assert " ".join(lines[-1].split()) == "0 1 udp* 4.3 MB 12 bytes 3 42 us 120.0 kB"
    assert all(len(line) <= 80 for line in lines)


def test_a_working_group_is_no_problem(told: list[Process]) -> None:
    told += [process(rank, 4) for rank in range(3)]
    assert run().exit_code == 0


def test_a_process_that_does_not_answer_is_named(told: list[Process]) -> None:
    told += [Process(4711, None)]
    result = run()
    assert result.exit_code == 1
    assert "process 4711 does not answer" in result.output


def test_json_has_what_was_told_and_what_is_wrong(told: list[Process]) -> None:
    told += STUCK
    result = run("--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert [one["pid"] for one in found["processes"]] == [100, 101]
    assert found["processes"][0]["answer"]["groups"][0]["waits_for"] == [1, 2]
    assert "process 101" in found["problems"][0]


@pytest.mark.parametrize("seconds", ["inf", "nan", "0", "1e300"])
def test_an_interval_that_no_clock_has_is_a_wrong_command_line(
    seconds: str, told: list[Process]
) -> None:
    result = run("--watch", seconds)
    assert result.exit_code == 2
    assert "--watch" in result.output


def test_watching_writes_no_json(told: list[Process]) -> None:
    result = run("--watch", "1", "--json")
    assert result.exit_code == 2
    assert "--watch draws on a terminal" in result.output
