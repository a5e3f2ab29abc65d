# SPDX-License-Identifier: Apache-2.0
"""What other processes learn of a running one, which ones may ask, and which ranks are named."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import places
import pytest
from launch import PROGRAMS, environment, free_port

from rocecoll.diagnosis.jobs import processes
from rocecoll.diagnosis.jobs.processes import Group, Member, Process

LIMIT_S = 120.0


def member(rank: int, called: int, running: str = "", waits_for: tuple[int, ...] = ()) -> Member:
    state = {
        "global_rank": rank,
        "collectives": called,
        "running": running,
        "running_for_s": 5.0 if running else 0.0,
        "waits_for": list(waits_for),
        "failure": "",
    }
    return Member(1000 + rank, state)


def test_the_rank_that_is_behind_is_named() -> None:
    group = Group(
        "0", 3, [member(0, 7, "barrier #7", (1,)), member(1, 7, "barrier #7"), member(2, 6)]
    )
    [line] = processes.verdicts(group)
    assert line.startswith("rank 2 has called 6 collectives where others have called 7, and is in")
    assert "process 1002" in line


def test_a_rank_that_still_runs_an_earlier_one_is_named_with_it() -> None:
    group = Group("0", 2, [member(0, 7, "barrier #7"), member(1, 6, "all_reduce #6")])
    [line] = processes.verdicts(group)
    assert "still runs all_reduce #6" in line


def message(rank: int, kind: str, peer: int | None, tag: int = 0) -> Member:
    way = "to" if kind == "send" else "from"
    waits_for = () if peer is None else (peer,)
    waiting = member(
        rank, 1, f"{kind} #1 ({way} rank {peer}, tag {tag}, float32, 9 elements)", waits_for
    )
    waiting.state.update(message=kind, tag=tag)
    return waiting


def test_a_circle_of_sends_is_named_once_around() -> None:
    sends = [message(rank, "send", peer) for rank, peer in ((1, 4), (2, 1), (4, 2))]
    behind_it = message(3, "recv", 1)
    assert processes.verdicts(Group("0", 5, [member(0, 1), *sends, behind_it])) == [
        "ranks wait for each other in a circle: rank 1 sends to rank 4 (tag 0), which sends to rank 2 "
        "(tag 0), which sends to rank 1 (tag 0); let one of them receive first, or use isend() or "
        "batch_isend_irecv()"
    ]


@pytest.mark.parametrize(
    ("first", "second", "cure"),
    [
        (("recv", 1, 0), ("recv", 0, 0), "let one of them send first"),
        (("send", 1, 7), ("recv", 0, 8), "with the same tags"),
    ],
)
def test_two_ranks_in_a_circle(first: tuple, second: tuple, cure: str) -> None:
    group = Group("0", 2, [message(0, *first), message(1, *second)])
    [line] = processes.verdicts(group)
    assert line.startswith("ranks wait for each other in a circle: rank 0 ") and cure in line


def test_messages_that_match_and_chains_are_no_circle() -> None:
    matching = [message(0, "send", 1, 7), message(1, "recv", 0, 7)]
    assert processes.verdicts(Group("0", 2, matching)) == []
    chain = [message(0, "send", 1), message(1, "recv", 2), message(2, "recv", None)]
    assert processes.verdicts(Group("0", 3, chain)) == []


def test_ranks_of_other_hosts_are_pointed_to() -> None:
    group = Group("0", 4, [member(0, 7, "barrier #7", (2, 3)), member(1, 7, "barrier #7", (0,))])
    [line] = processes.verdicts(group)
    assert line == "rank 0 waits for ranks 2-3 on another host: ask there, too"


def test_a_group_that_works_has_no_verdict() -> None:
    short = member(0, 7, "barrier #7", (1,))
    short.state["running_for_s"] = 0.2
    assert processes.verdicts(Group("0", 2, [short, member(1, 6)])) == []
    assert processes.verdicts(Group("0", 2, [member(0, 6), member(1, 6)])) == []


def test_a_failure_is_told_as_it_was() -> None:
    failed = member(1, 6)
    failed.state["failure"] = "rocecoll: it broke"
    group = Group("0", 2, [member(0, 6, "barrier #6"), failed])
    assert processes.verdicts(group) == ["rank 1 has failed: rocecoll: it broke"]


def test_only_listening_sockets_with_our_name_count() -> None:
    listing = """Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 31 @rocecoll-status-77-00ff00ff
0000000000000000: 00000003 00000000 00000000 0001 03 32 @rocecoll-status-78-00ff00ff
0000000000000000: 00000002 00000000 00010000 0001 01 33 /run/rocecoll-status-79-00ff00ff
0000000000000000: 00000002 00000000 00010000 0001 01 34
"""
    assert processes.sockets(listing) == {"rocecoll-status-77-00ff00ff": 77}


@contextlib.contextmanager
def late_ranks(ranks: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Ranks of which the last one is in no operation, while the others wait for it."""
    port = str(free_port())
    place = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    running = [
        subprocess.Popen(
            [sys.executable, str(PROGRAMS / "late_rank.py")],
            env=environment(**place, RANK=str(rank), LOCAL_WORLD_SIZE=str(ranks)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        last = running[-1].stdout
        assert last is not None and last.readline() == "ready\n"
        yield running
    finally:
        for process in running:
            process.kill()
            process.communicate()


def seen(ranks: list[subprocess.Popen[str]]) -> list[Process]:
    """Only the processes of this test, which shares the machine with others."""
    pids = {process.pid for process in ranks}
    lines = processes.SOCKETS.read_text().splitlines(keepends=True)
    ours = [line for line in lines if pids & set(processes.sockets(line).values())]
    return processes.ask_all("".join(ours))


def wait_for(what: str, condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    pytest.fail(f"{what}: not within {LIMIT_S} s")


def test_a_rank_that_keeps_the_others_is_named_until_it_goes_on() -> None:
    with late_ranks(3) as ranks:

        def stuck() -> Group | None:
            """The group, once all answer (late on a busy machine) and the others wait for rank 2."""
            for group in processes.groups_of(seen(ranks)):
                others_wait = all(member.state["running"] for member in group.members[:2])
                if len(group.members) == 3 and others_wait and processes.verdicts(group):
                    return group
            return None

        group = wait_for("a verdict", stuck)
        [line] = processes.verdicts(group)
        assert line.startswith("rank 2 has called 1 collective where others have called 2")
        assert f"process {ranks[2].pid}" in line

        def shown() -> bool:
            """Ranks of other tests are asked, too, and those that answer late are left out."""
            command = [sys.executable, "-m", "rocecoll", "status"]
            done = subprocess.run(command, env=environment(), capture_output=True, text=True)
            return "rank 2 has called 1 collective" in " ".join(done.stdout.split())

        wait_for("the verdict shown", shown)
        states = [member.state for member in group.members]
        assert states[0]["running"] == "all_reduce #2 (SUM, float32, 1000 elements)"
        assert states[2]["last"] == "all_reduce #1 (SUM, float32, 4 elements)"
        assert states[2]["running"] == ""
        assert ranks[2].stdin is not None
        ranks[2].stdin.write("\n")
        ranks[2].stdin.flush()
        for process in ranks:
            assert process.wait(LIMIT_S) == 0


def test_a_stopped_process_does_not_answer_and_holds_up_nobody() -> None:
    with late_ranks(2) as ranks:
        ranks[1].send_signal(signal.SIGSTOP)
        os.waitpid(ranks[1].pid, os.WUNTRACED)  # until it is

        def first_told() -> dict[str, Any] | None:
            answers = {one.pid: one.answer for one in seen(ranks)}
            assert answers[ranks[1].pid] is None
            return answers[ranks[0].pid]

        told = wait_for("an answer beside one that is stopped", first_told)
        assert told["groups"][0]["ranks"] == 2


def test_another_user_is_told_nothing() -> None:
    if os.geteuid() != 0:
        pytest.skip("being another user needs root's rights")
    with late_ranks(1) as ranks:
        names = processes.sockets(processes.SOCKETS.read_text())
        [name] = [name for name, pid in names.items() if pid == ranks[0].pid]
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            places.ordinary_user()
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.connect(f"\0{name}")
                os.write(writing, connection.recv(100) or b"nothing")
            os._exit(0)
        os.close(writing)
        with open(reading, "rb") as pipe:
            assert pipe.read() == b"nothing"
        os.waitpid(child, 0)


def test_a_forked_child_is_not_taken_for_its_parent(tmp_path: Path) -> None:
    program = """
import os, sys, torch.distributed as dist, rocecoll
dist.init_process_group("rocecoll", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
if os.fork() == 0:
    print("child", os.getpid(), flush=True)
    sys.stdin.read()
    os._exit(0)
os._exit(0)  # as if it were killed
"""
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "store")],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None and child.stdin is not None
    assert child.stdout.readline().startswith("child")
    assert child.wait(LIMIT_S) == 0
    assert child.pid not in processes.sockets(processes.SOCKETS.read_text()).values()
    child.stdin.close()
    child.stdout.read()
