# SPDX-License-Identifier: Apache-2.0
"""A group that some ranks do not make: the missing ones are named, and the wait can be ended."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from launch import PROGRAMS, environment, free_port, run_programs
from typer.testing import CliRunner

import rocecoll.cli.status
from rocecoll.cli.app import app
from rocecoll.diagnosis.jobs import processes
from rocecoll.rendezvous.forming import Forming
from rocecoll.rendezvous.meeting import _count_come, _missing

LIMIT_S = 200.0


class Keys:
    """A Store of which only check() is used."""

    def __init__(self, keys: list[str]) -> None:
        self.there = set(keys)
        self.asked = 0

    def check(self, keys: list[str]) -> bool:
        self.asked += 1
        return self.there.issuperset(keys)


@pytest.mark.quick
@pytest.mark.parametrize("lacking", [[], [0], [999], [0, 1, 500, 999], list(range(1, 1000))])
def test_who_is_missing_is_found_with_few_questions(lacking: list[int]) -> None:
    keys = [str(rank) for rank in range(1000)]
    store = Keys([key for rank, key in enumerate(keys) if rank not in lacking])
    come = _count_come(store, keys, 0)  # type: ignore[arg-type]
    assert come == (lacking[0] if lacking else 1000)
    asked = store.asked
    assert asked <= 40
    assert _count_come(store, keys, come) == come  # type: ignore[arg-type]
    assert store.asked <= asked + 1, "one question for each look"
    assert _missing(store, keys, come) == lacking  # type: ignore[arg-type]
    assert store.asked <= asked + 1 + 2 * max(len(lacking) * 10, 1)


@pytest.mark.quick
def test_warnings_come_ever_more_seldom(caplog: pytest.LogCaptureFixture) -> None:
    group = Forming("7", rank=5, ranks=[3, 5, 9], started=100.0)
    told = []
    for second in range(1, 301):
        if group.is_due(100.0 + second):
            with caplog.at_level(logging.WARNING, "rocecoll"):
                group.miss([0, 2], 100.0 + second)
        told += [second] * len(caplog.messages)
        if caplog.messages:
            assert caplog.messages == [
                f"rocecoll: group '7': rank 5 has waited {second} s for ranks 3, 9 (2 of 3) to make "
                "the group, too: their program has not called init_process_group or new_group for "
                "it, or has ended"
            ]
        caplog.clear()
    assert told == [10, 30, 60, 120, 240]


class Rank:
    """A process of programs/late_group.py."""

    def __init__(self, rank: int, port: int) -> None:
        place = {"RANK": str(rank), "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3"}
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAMS / "late_group.py")],
            env=environment(**place, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def line(self, *words: str) -> str:
        """The next line with these words, skipping others; waits until the test's own limit."""
        assert self.process.stdout is not None
        passed = []
        for line in self.process.stdout:
            if all(word in line for word in words):
                return line
            passed.append(line)
        pytest.fail(f"no line with {words}: {passed}")


@contextmanager
def ready_ranks() -> Iterator[list[Rank]]:
    port = free_port()
    ranks = [Rank(rank, port) for rank in range(3)]
    try:
        for rank in ranks:
            rank.line("ready")
        yield ranks
    finally:
        for rank in ranks:
            rank.process.kill()
            rank.process.communicate()


def wait_for_status(rank: Rank, monkeypatch: pytest.MonkeyPatch) -> str:
    """What `rocecoll status` shows of this process alone, once it waits for another rank."""

    def ask() -> list[processes.Process]:
        listing = processes.SOCKETS.read_text().splitlines(keepends=True)
        ours = [s for s in listing if rank.process.pid in processes.sockets(s).values()]
        return processes.ask_all("".join(ours))

    monkeypatch.setattr(rocecoll.cli.status, "ask_all", ask)
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        result = CliRunner().invoke(app, ["status"], env={"COLUMNS": "120"})
        if "makes the group" in result.output:
            assert result.exit_code == 1
            return result.output
        time.sleep(0.05)
    pytest.fail(f"not within {LIMIT_S} s: {result.output}")


@pytest.mark.parametrize("ended", [False, True], ids=["late", "ended"])
def test_a_missing_rank_is_named_and_ctrl_c_ends_the_wait(
    ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ready_ranks() as [_, waiting, missing]:
        if ended:
            missing.tell("end")
            assert missing.process.wait(LIMIT_S) == 0
        shown = wait_for_status(waiting, monkeypatch)
        assert "rank 1 makes the group, and waits for rank 2 to make it, too" in shown, shown
        assert "groups that are being made" in shown
        waiting.process.send_signal(signal.SIGUSR1)
        waiting.line("handled")
        waiting.line("rank 1 has waited", "for rank 2 (1 of 2) to make the group, too")
        waiting.process.send_signal(signal.SIGINT)
        waiting.line("interrupted")
        if not ended:
            missing.tell("go")
            line = missing.line("failed")
            assert "rank 0 (" in line and "its wait ended by KeyboardInterrupt" in line, line


def test_a_late_rank_is_found_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    with ready_ranks() as [_, waiting, late]:
        wait_for_status(waiting, monkeypatch)
        late.tell("go")
        for rank in (waiting, late):
            rank.line("sum 2.0")


def test_rank_0_waits_for_the_first_group_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where torch would wait, unable to be interrupted, for all ranks to reach the Store that rank
    0 serves."""
    first, second = (Rank(rank, port) for port in [free_port()] for rank in (0, 1))
    try:
        shown = wait_for_status(first, monkeypatch)
        assert "rank 0 makes the group, and waits for rank" in shown, shown
        first.process.send_signal(signal.SIGUSR1)
        first.line("handled")
        first.line("rank 0 has waited", "for rank 2 (1 of 3) to make the group, too")
        second.line("rank 1 has waited", "for ranks 0, 2 (2 of 3) to make the group, too")
        first.process.send_signal(signal.SIGINT)
        first.line("KeyboardInterrupt")
        assert first.process.wait(LIMIT_S) != 0
    finally:
        for rank in (first, second):
            rank.process.kill()
            rank.process.communicate()


BROKEN = """
import sys
sys.modules["rocecoll._c10d"] = None  # as where it was built for another torch
import torch.distributed as dist
dist.init_process_group("rocecoll")
"""
MAKES_A_GROUP = """
import torch.distributed as dist
dist.init_process_group("rocecoll")
"""


@pytest.mark.parametrize("broken", [0, 1])
def test_a_rank_that_cannot_load_the_package_keeps_nobody(broken: int) -> None:
    """Whether the rank that serves the Store waits in torch's way or in ours."""
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    results = run_programs(
        [[sys.executable, "-c", BROKEN if rank == broken else MAKES_A_GROUP] for rank in (0, 1)],
        [environment(**place, RANK=str(rank)) for rank in (0, 1)],
    )
    assert [result.returncode for result in results] == [1, 1], results
    last = results[1 - broken].stdout.splitlines()[-1]
    assert f"rank {broken} (" in last and "could not start: import of rocecoll._c10d" in last, last


DIES_ONCE_BEFORE_IT_COMES = """
import os, sys, threading, time
from pathlib import Path
import torch, torch.distributed as dist
import rocecoll
from rocecoll.rendezvous import forming

waits, rank = Path(sys.argv[1]), int(os.environ["RANK"])

def wait_for(condition):
    deadline = time.monotonic() + 200
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)

def tell():
    wait_for(forming.snapshot)
    waits.touch()

if not waits.exists() and rank == 0:
    threading.Thread(target=tell, daemon=True).start()
elif not waits.exists():
    wait_for(waits.exists)
    sys.exit(3)
dist.init_process_group("rocecoll")
total = torch.ones(1)
dist.all_reduce(total)
os.write(1, f"rank {rank}: sum {total.item()}\\n".encode())
"""


def test_what_ranks_left_before_a_restart_keeps_nobody_apart(tmp_path: Path) -> None:
    """torchrun serves the same Store to all starts; in the first, only rank 0 came to the group."""
    program = tmp_path / "program.py"
    program.write_text(DIES_ONCE_BEFORE_IT_COMES)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", "--max-restarts", "1"]
    (result,) = run_programs([[*command, str(program), str(tmp_path / "waits")]], [environment()])
    assert result.returncode == 0, result.stdout
    for rank in (0, 1):
        assert f"rank {rank}: sum 2.0" in result.stdout, result.stdout
