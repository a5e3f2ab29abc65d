# SPDX-License-Identifier: Apache-2.0
"""Two ranks of one host, with nothing chosen: what carries their bytes where processes are kept apart."""

from __future__ import annotations

import ctypes
import errno
import functools
import logging
import multiprocessing
import os
import re
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from launch import OPTIONS, free_port
from namespaces import Host
from places import (
    CLONE_NEWIPC,
    Place,
    call,
    cover,
    coverable,
    forbid,
    hidden,
    no_room_for_files,
    ordinary_user,
    own_processes,
    own_users,
)
from worker import enter_network

PATIENCE_S = 100.0  # for an operation
LIMIT_S = 200.0  # for a rank to answer or to end
COUNTS = (1, 1 << 13, 1 << 19)  # elements of 8 bytes: one frame, several, and writes
LONG_COUNT = 1 << 23
UNDER_WAY_BYTES = 8 << 20
PAYLOAD_BYTES = 8 * sum(COUNTS)
CONTROL_BYTES = 64 << 10  # far more than the control path needs, far less than PAYLOAD


@dataclass
class Report:
    """What a rank reports, or why it could not go to its place, or the error that it ended with."""

    refused: str = ""
    error: str = ""
    logged: list[str] = field(default_factory=list)
    shared_bytes: int = 0
    network_bytes: int = 0

    def pair_lines(self) -> list[str]:
        """What is said of the pair, at INFO, without its address."""
        found = (re.match(r"INFO: rocecoll: ranks (.*?) \(.*?\)(: .*)", s) for s in self.logged)
        return ["".join(match.groups()) for match in found if match]


class Kept(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.INFO)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(f"{record.levelname}: {record.getMessage()}")


def reduce_exactly(rank: int) -> None:
    for count in COUNTS:
        numbers = torch.arange(count)
        values = numbers * (rank + 1)
        dist.all_reduce(values)
        assert torch.equal(values, numbers * 3), count


def reduce_and_leave(rank: int, report: Report) -> None:
    import rocecoll

    reduce_exactly(rank)
    stats = rocecoll.stats()
    report.shared_bytes, report.network_bytes = stats["shared_bytes_sent"], stats["bytes_sent"]
    dist.destroy_process_group()


def die_in_the_middle(rank: int, report: Report, *, victim: int) -> None:
    """The victim is killed when much, but not all, of a long all_reduce has gone out."""
    import rocecoll

    reduce_exactly(rank)
    values = torch.ones(LONG_COUNT, dtype=torch.int64)
    deadline = time.monotonic() + PATIENCE_S
    if rank != victim:
        while time.monotonic() < deadline:
            dist.all_reduce(values)
    before = rocecoll.stats()["shared_bytes_sent"]
    dist.all_reduce(values, async_op=True)
    while time.monotonic() < deadline:
        if rocecoll.stats()["shared_bytes_sent"] - before >= UNDER_WAY_BYTES:
            os.kill(os.getpid(), signal.SIGKILL)


def run_rank(
    rank: int, store: str, place: Place, action: Callable[[int, Report], None], pipe: Connection
) -> None:
    """Says whether it is in its place, waits until it may go on, and sends the whole report."""
    report = Report()
    for name in [name for name in os.environ if name.startswith(OPTIONS)]:
        del os.environ[name]
    try:
        for step in place:
            step()
    except OSError as error:
        report.refused = str(error)
    pipe.send(report)
    if report.refused or not pipe.recv():
        return
    from rocecoll.logs import log_forwarding

    logger = logging.getLogger("rocecoll")
    logger.setLevel(logging.INFO)
    logger.addHandler(Kept(report.logged))
    wait = timedelta(seconds=PATIENCE_S)
    try:
        dist.init_process_group(
            "rocecoll", init_method=store, rank=rank, world_size=2, timeout=wait
        )
        action(rank, report)
    except Exception as error:
        report.error = f"{type(error).__name__}: {error}"
    log_forwarding.stop()
    pipe.send(report)
    os._exit(0)  # the other rank may have held the store


def answer(pipe: Connection, rank: int) -> Report | None:
    """None: it has ended, and so has every process that came from it."""
    assert pipe.poll(LIMIT_S), f"rank {rank} does not answer"
    try:
        report: Report = pipe.recv()
    except (EOFError, ConnectionResetError):
        return None
    return report


def run_ranks(
    places: Sequence[Place],
    action: Callable[[int, Report], None] = reduce_and_leave,
    host: str = "127.0.0.1",
) -> list[Report | None]:
    """What the ranks report; None for one that died."""
    context = multiprocessing.get_context("forkserver")
    store, pipes, reports = f"tcp://{host}:{free_port()}", [], []
    with ExitStack() as at_end:
        for rank, place in enumerate(places):
            ours, theirs = context.Pipe()
            process = context.Process(target=run_rank, args=(rank, store, place, action, theirs))
            process.start()
            at_end.callback(process.join, LIMIT_S)
            at_end.callback(process.kill)
            at_end.enter_context(ours)
            theirs.close()
            pipes.append(ours)
        for rank, pipe in enumerate(pipes):
            ready = answer(pipe, rank)
            assert ready is not None, f"rank {rank} ended on its way"
            if ready.refused:
                pytest.skip(f"this system does not let rank {rank} go there: {ready.refused}")
        for pipe in pipes:
            pipe.send(True)
        for rank, pipe in enumerate(pipes):
            reports.append(answer(pipe, rank))
        for rank, pipe in enumerate(pipes):
            assert answer(pipe, rank) is None, f"rank {rank} goes on"
    return reports


@pytest.fixture
def covers(tmp_path: Path) -> dict[str, Path]:
    """Empty directories that take the place of those for temporary files, in the ranks."""
    made = {name: tmp_path / name.strip("/").replace("/", "-") for name in coverable()}
    for path in made.values():
        path.mkdir()
        path.chmod(0o1777)
    return made


def covered(covers: dict[str, Path], place: Place) -> Place:
    return (*(functools.partial(cover, name, str(path)) for name, path in covers.items()), *place)


def left_in(covers: dict[str, Path]) -> list[str]:
    return [str(found) for path in covers.values() for found in path.iterdir()]


# -- what may be relied on

ONE_COPY = "shared memory"
TWO_COPIES = (
    "shared memory, large messages to it in two copies (the system does not let it read this "
    "process's memory)"
)


@pytest.fixture(scope="module")
def fetching() -> None:
    """Skips where processes may not read each other's memory: everything takes two copies."""
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    if scope.exists() and int(scope.read_text()) > 1:
        pytest.skip("kernel.yama.ptrace_scope lets at most the administrator's processes do so")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        vector = ctypes.create_string_buffer(struct.pack("@PN", 0, 1))
        with pytest.raises(OSError) as raised:
            call("process_vm_readv", process.pid, vector, 1, vector, 1, 0)
        process.kill()
    if raised.value.errno != errno.EFAULT:
        pytest.skip(f"not even of a child: {raised.value}")


def test_memory_carries_all_but_control() -> None:
    """With nothing on the machine changed, so that this runs everywhere."""
    for rank, report in enumerate(run_ranks([(), ()])):
        assert report is not None and not report.error, report
        assert report.shared_bytes >= PAYLOAD_BYTES
        assert report.network_bytes < CONTROL_BYTES
        [line] = report.pair_lines()
        assert line.startswith(f"{rank} and {1 - rank}: shared memory"), line


@pytest.mark.parametrize(
    ("places", "carriers"),
    [
        pytest.param(((), ()), (ONE_COPY, ONE_COPY), id="together"),
        # The outer rank sees the inner one's process, but not the reverse, so what the outer one
        # writes cannot be fetched.
        pytest.param(((), (own_processes,)), (TWO_COPIES, ONE_COPY), id="one PID namespace"),
        pytest.param(((own_processes,),) * 2, (TWO_COPIES, TWO_COPIES), id="PID namespaces"),
        pytest.param(
            ((), (functools.partial(call, "unshare", CLONE_NEWIPC),)),
            (ONE_COPY, ONE_COPY),
            id="IPC namespace",
        ),
        pytest.param(((), (own_users,)), (TWO_COPIES, ONE_COPY), id="one user namespace"),
        pytest.param(((own_users,),) * 2, (TWO_COPIES, TWO_COPIES), id="user namespaces"),
        pytest.param(((ordinary_user,),) * 2, (ONE_COPY, ONE_COPY), id="ordinary user"),
        pytest.param(
            ((ordinary_user,), (ordinary_user, hidden)), (ONE_COPY, TWO_COPIES), id="one is hidden"
        ),
        pytest.param(
            ((), (functools.partial(forbid, "process_vm_readv"),)),
            (TWO_COPIES, ONE_COPY),
            id="seccomp",
        ),
    ],
)
def test_memory_carries_processes_kept_apart(
    fetching: None,
    covers: dict[str, Path],
    places: tuple[Place, Place],
    carriers: tuple[str, str],
) -> None:
    """Each rank says of what it sends whether the other one can fetch it."""
    reports = run_ranks([covered(covers, place) for place in places])
    for rank, (report, carrier) in enumerate(zip(reports, carriers, strict=True)):
        assert report is not None and not report.error, report
        assert report.pair_lines() == [f"{rank} and {1 - rank}: {carrier}"]
        assert report.shared_bytes >= PAYLOAD_BYTES
        assert report.network_bytes < CONTROL_BYTES
    assert left_in(covers) == []


def test_temporary_directories_do_not_matter() -> None:
    if "/tmp" not in coverable():
        pytest.skip("the tests themselves are in /tmp")
    for report in run_ranks([(no_room_for_files,)] * 2):
        assert report is not None and not report.error, report
        assert report.shared_bytes >= PAYLOAD_BYTES


def assert_network_carried(reports: Sequence[Report | None]) -> list[Report]:
    there = [report for report in reports if report is not None]
    assert len(there) == 2
    for report in there:
        assert not report.error, report
        assert report.shared_bytes == 0
        assert report.network_bytes >= PAYLOAD_BYTES
    return there


def test_the_network_carries_different_users(covers: dict[str, Path]) -> None:
    reports = run_ranks([covered(covers, place) for place in ((), (ordinary_user,))])
    for rank, report in enumerate(assert_network_carried(reports)):
        [line] = report.pair_lines()
        assert line.startswith(f"{rank} and {1 - rank}: the network: "), line
        assert line.endswith("one of both runs as another user"), line
    assert left_in(covers) == []


def test_the_network_carries_whoever_has_no_memory_to_share(covers: dict[str, Path]) -> None:
    without: Place = (functools.partial(forbid, "memfd_create"),)
    reports = assert_network_carried(run_ranks([covered(covers, place) for place in ((), without)]))
    assert reports[0].pair_lines() == [
        "0 and 1: the network: the peer says: no shared memory (memfd_create): Operation not permitted"
    ]
    assert any("no shared memory in this process" in line for line in reports[1].logged)
    assert left_in(covers) == []


def test_the_network_carries_hosts_of_one_machine(
    hosts: tuple[Host, ...], covers: dict[str, Path]
) -> None:
    """Network namespaces are hosts, whatever else they share."""
    places = [
        covered(covers, (functools.partial(enter_network, host.namespace),)) for host in hosts
    ]
    reports = assert_network_carried(run_ranks(places, host=hosts[0].ipv4))
    for report in reports:
        assert report.pair_lines() == []
    assert any("2 ranks on 2 hosts" in line for line in reports[0].logged), reports[0].logged
    assert left_in(covers) == []


@pytest.mark.parametrize(
    ("victim", "place"),
    [
        pytest.param(1, (), id="while the other fetches"),
        pytest.param(0, (functools.partial(forbid, "process_vm_readv"),), id="in parts"),
        pytest.param(1, (own_processes,), id="unseen"),
    ],
)
def test_who_is_killed_is_named_and_leaves_nothing(
    covers: dict[str, Path], victim: int, place: Place
) -> None:
    """`place` is that of the survivor."""
    places: list[Place] = [covered(covers, ())] * 2
    places[1 - victim] = covered(covers, place)
    reports = run_ranks(places, functools.partial(die_in_the_middle, victim=victim))
    survivor = reports[1 - victim]
    assert reports[victim] is None
    assert survivor is not None and f"lost rank {victim} (" in survivor.error, survivor
    assert survivor.pair_lines()[0].startswith(f"{1 - victim} and {victim}: shared memory")
    assert left_in(covers) == []
