# SPDX-License-Identifier: Apache-2.0
"""Pools of rank processes that outlive a test, so that hundreds of cases take seconds.

A pool is `size` processes in one default group. `pool.run(function, ...)` calls a module-level
function on every rank at once and returns what each returned; a rank that raises, dies or hangs
ends the pool, and the test fails with that rank's error and output.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import worker

CALL_LIMIT_S = 300.0
TIMEOUT_S = 200.0  # of an operation, whose error says more than that of the call's limit
STACKS_LIMIT_S = 10.0
AFTER_ERROR_S = 10.0  # for the others, which may wait in vain for a rank that has failed
OUTPUT_TAIL = 8000
STACKS = "(most recent call first)"  # what faulthandler writes

PRELOADED = ("torch", "torch.distributed", "numpy", "pytest")
SLOW_IMPORTS = (
    "torch._dynamo",  # imported by the first optimizer
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributed.optim",
    "torch.distributed.pipelining",
    "torch.distributed.tensor.parallel",
)

_context = multiprocessing.get_context("forkserver")


class RankError(Exception):
    """At least one rank did not return a value."""


@dataclass(frozen=True)
class Outcome:
    """What became of one rank's call: a value, or the error that it raised."""

    value: Any = None
    error: str | None = None  # "RuntimeError: ..."
    trace: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class PoolSpec:
    """Everything that makes one pool different from another."""

    size: int
    backend: str
    timeout_s: float = TIMEOUT_S
    environment: tuple[tuple[str, str], ...] = ()


class Pool:
    def __init__(self, spec: PoolSpec) -> None:
        self.spec = spec
        self.size = spec.size
        self.alive = True
        self._directory = tempfile.TemporaryDirectory(prefix="rocecoll-test-")
        rendezvous = Path(self._directory.name) / "store"
        self._processes: list[BaseProcess] = []
        self._pipes: list[Connection] = []
        for rank in range(spec.size):
            ours, theirs = _context.Pipe()
            # Not a daemon: close() and the session's end check are what ends it.
            process = _context.Process(
                target=worker.main,
                args=(rank, spec, str(rendezvous), str(self._output(rank)), theirs),
                name=f"rank {rank} of {spec.size}",
            )
            process.start()
            theirs.close()
            self._processes.append(process)
            self._pipes.append(ours)
        self._values(self._gather(range(spec.size), CALL_LIMIT_S, "starting", AFTER_ERROR_S))

    def run(
        self, function: Callable[..., Any], *args: Any, limit_s: float = CALL_LIMIT_S
    ) -> list[Any]:
        """function(*args) on every rank; their return values by rank. Raises RankError."""
        self.send(function, *args)
        name = getattr(function, "__name__", "call")
        return self._values(self._gather(range(self.size), limit_s, name, AFTER_ERROR_S))

    def _values(self, outcomes: list[Outcome]) -> list[Any]:
        failed = [rank for rank, outcome in enumerate(outcomes) if outcome.error]
        if failed:
            self.kill()
            raise RankError(
                "\n".join(f"rank {rank}: {outcomes[rank].trace}" for rank in failed)
                + self._outputs()
            )
        return [outcome.value for outcome in outcomes]

    def attempt(
        self,
        function: Callable[..., Any],
        *args: Any,
        limit_s: float = CALL_LIMIT_S,
        ranks: Sequence[int] | None = None,
    ) -> list[Outcome]:
        """Like run, but an error is an outcome too, and only `ranks` need take part."""
        chosen = range(self.size) if ranks is None else ranks
        self.send(function, *args, ranks=chosen)
        return self._gather(chosen, limit_s, getattr(function, "__name__", "call"))

    def send(
        self, function: Callable[..., Any], *args: Any, ranks: Sequence[int] | None = None
    ) -> None:
        """Starts a call; collect() returns the outcomes."""
        for rank in range(self.size) if ranks is None else ranks:
            self._pipes[rank].send((function, args))

    def collect(self, ranks: Sequence[int], limit_s: float = CALL_LIMIT_S) -> list[Outcome]:
        return self._gather(ranks, limit_s, "call")

    def process(self, rank: int) -> BaseProcess:
        return self._processes[rank]

    def close(self) -> None:
        """Ends the ranks in good order, and by force what does not end."""
        if self.alive:
            for pipe in self._pipes:
                with contextlib.suppress(OSError):  # a rank that a test has killed
                    pipe.send(None)
            deadline = time.monotonic() + 60
            for process in self._processes:
                process.join(max(0.0, deadline - time.monotonic()))
        self.kill()

    def kill(self) -> None:
        self.alive = False
        for process in self._processes:
            if process.is_alive():
                process.kill()
        for process in self._processes:
            process.join(10)

    def release(self) -> None:
        """close() and the output files go."""
        self.close()
        self._directory.cleanup()

    def _output(self, rank: int) -> Path:
        return Path(self._directory.name) / f"rank{rank}.log"

    def _outputs(self) -> str:
        text = ""
        for rank in range(self.size):
            path = self._output(rank)
            tail = path.read_text(errors="replace")[-OUTPUT_TAIL:] if path.exists() else ""
            if tail.strip():
                text += f"\n--- output of rank {rank}\n{tail}"
        return text

    def _gather(
        self,
        ranks: Sequence[int],
        limit_s: float,
        what: str,
        after_error_s: float | None = None,
    ) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}
        waiting = {self._pipes[rank]: rank for rank in ranks}
        deadline = time.monotonic() + limit_s
        while waiting:
            try:
                ready = wait(list(waiting), timeout=max(0.0, deadline - time.monotonic()))
            except BaseException:  # the limit of the test, or Ctrl-C
                print(self._end(sorted(waiting.values())), file=sys.stderr)
                raise
            if not ready:
                errors = "".join(f"\n{o.trace}" for o in outcomes.values() if o.error)
                self._fail(f"{what}: no answer in time{errors}", sorted(waiting.values()))
            for pipe in ready:
                assert isinstance(pipe, Connection)
                rank = waiting.pop(pipe)
                try:
                    outcome = outcomes[rank] = Outcome(*pipe.recv())
                    if outcome.error and after_error_s is not None:
                        deadline = min(deadline, time.monotonic() + after_error_s)
                except (EOFError, ConnectionResetError):
                    self._processes[rank].join(5)
                    code = self._processes[rank].exitcode
                    self._fail(f"{what}: the process ended with status {code}", [rank])
        return [outcomes[rank] for rank in ranks]

    def _fail(self, why: str, ranks: Sequence[int]) -> None:
        raise RankError(f"ranks {list(ranks)}: {why}{self._end(ranks)}")

    def _end(self, ranks: Sequence[int]) -> str:
        """Ends the pool; the output of all, with the stacks of these ranks."""
        asked = [rank for rank in ranks if worker.request_stacks(self._processes[rank])]
        deadline = time.monotonic() + STACKS_LIMIT_S
        while asked and time.monotonic() < deadline:
            asked = [
                rank
                for rank in asked
                if STACKS not in self._output(rank).read_text("utf8", "replace")
            ]
            time.sleep(0.02)
        self.kill()
        return self._outputs()


class Pools:
    """At most `capacity` live pools; the one unused for longest goes first."""

    def __init__(self, capacity: int = 4) -> None:
        self._capacity = capacity
        self._pools: dict[PoolSpec, Pool] = {}

    def get(self, spec: PoolSpec) -> Pool:
        pool = self._pools.pop(spec, None)
        if pool is not None and not pool.alive:
            pool.release()
            pool = None
        while pool is None and len(self._pools) >= self._capacity:
            self._pools.pop(next(iter(self._pools))).release()
        self._pools[spec] = pool or Pool(spec)
        return self._pools[spec]

    def close(self) -> None:
        for pool in self._pools.values():
            pool.release()
        self._pools.clear()


@contextlib.contextmanager
def fresh_pool(spec: PoolSpec) -> Iterator[Pool]:
    """A pool of one test's own, which may be killed, mismatched or left waiting."""
    pool = Pool(spec)
    try:
        yield pool
    finally:
        pool.release()


def preload() -> None:
    """Loads torch in the server that every rank is forked from, with those of its slow modules that
    the collected tests use."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Modules that are found without our sys.path, which Python 3.11's server does not get.
    _context.set_forkserver_preload(
        [*PRELOADED, *(name for name in SLOW_IMPORTS if name in sys.modules)]
    )
