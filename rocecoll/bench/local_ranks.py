# SPDX-License-Identifier: Apache-2.0
"""Starts ranks on this host, and follows these or other processes until they end."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rocecoll import environment
from rocecoll.bench.plan import Plan
from rocecoll.bench.report import Collector, Reader

SILENCE_LIMIT_S = 900.0  # from one line of the report to the next
ENDING_LIMIT_S = 10.0
LOOK_S = 0.1
# The exit status of a rank that stopped because another one ended; that one's end is what to report.
LOST_OTHERS = 3

# A rank imports rocecoll from where this process does; -m would search the current directory first.
PROGRAM = """import runpy, sys
sys.path[:] = {path!r}
runpy.run_module("rocecoll.bench.rank", run_name="__main__", alter_sys=True)
"""

Processes = Sequence["subprocess.Popen[bytes]"]


class RankError(Exception):
    """A rank has not done its part; it has said why on stderr, if it could."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def variables(ranks: int) -> dict[str, str]:
    """The environment that all ranks of this host have in common."""
    return environment.inherited_variables() | {
        "OMP_NUM_THREADS": "1",
        "TORCH_CPP_LOG_LEVEL": "ERROR",  # or the store complains that hosts have no names
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }


def place(rank: int) -> dict[str, str]:
    return {"RANK": str(rank), "LOCAL_RANK": str(rank)}


def start(plan: Plan, ranks: int, report: Path) -> Processes:
    shared = variables(ranks)
    job = json.dumps({"plan": plan.json(), "report": str(report)})
    program = [sys.executable, "-c", PROGRAM.format(path=sys.path), job]
    return [
        # In a session of its own, so that Ctrl-C reaches only the program that follows it.
        subprocess.Popen(program, env=shared | place(rank), start_new_session=True)
        for rank in range(ranks)
    ]


def end_in_order() -> None:
    """Makes this process end its ranks, too, when a signal tells it to end."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda got, _: sys.exit(128 + got))


@contextmanager
def signals_later() -> Iterator[None]:
    """Delays signals that end this process until after the block: a rank that has been started and is
    in no variable yet would run on."""
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {
        number: signal.signal(number, lambda got, _: came.append(got)) for number in numbers
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for got in came:
        signal.raise_signal(got)


def measure(start_ranks: Callable[[Path], Processes], collector: Collector) -> None:
    with tempfile.TemporaryDirectory(prefix="rocecoll-bench-") as directory:
        report = Path(directory) / "blocks.jsonl"
        reader = Reader(report)
        follow(lambda: start_ranks(report), reader, collector)


def follow(start_ranks: Callable[[], Processes], reader: Reader, collector: Collector) -> None:
    """Waits until all ranks have succeeded or one has failed; no rank runs on afterwards."""
    ranks: Processes = []
    heard = time.monotonic()
    try:
        with signals_later():
            ranks = start_ranks()
        while True:
            ended = [rank.poll() for rank in ranks]
            for line in reader.lines():
                heard = time.monotonic()
                collector.take(line)
            if any(ended):
                raise RankError(cause(ended))
            if None not in ended:
                return
            if time.monotonic() - heard > SILENCE_LIMIT_S:
                raise RankError(f"the ranks did nothing for {SILENCE_LIMIT_S:g} s")
            time.sleep(LOOK_S)
    finally:
        end(ranks)


def cause(ended: Sequence[int | None]) -> str:
    """The rank that failed first: a killed rank says nothing, and others fail at once because of it."""
    failed = [(status, rank) for rank, status in enumerate(ended) if status]
    status, rank = min(failed, key=lambda one: (one[0] > 0, one[0] == LOST_OTHERS, one[1]))
    if status < 0:
        return f"rank {rank} was killed by {signal.Signals(-status).name}"
    return f"rank {rank} ended with status {status} (see above)"


def end(ranks: Processes) -> None:
    for rank in ranks:
        rank.terminate()
    for rank in ranks:
        try:
            rank.wait(ENDING_LIMIT_S)
        except subprocess.TimeoutExpired:
            rank.kill()
            rank.wait()
