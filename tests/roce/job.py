# SPDX-License-Identifier: Apache-2.0
"""Jobs of a few ranks, each a process at one end of the wire, driven by the test.

Ranks are forked from the test's process, in which no runtime may have started, so that a job costs
no import. A rank's body is any function of a Rank; it may talk to the test while it runs.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from types import TracebackType
from typing import Any

import bed
from core_alone import core, environment, options

LIMIT_S = 200.0  # for anything that must come; no verdict depends on how soon it does
CLOSING_S = 30.0

_fork = multiprocessing.get_context("fork")


class Rank:
    """What a body gets. Before leave() there are a runtime and a group."""

    runtime: core.Runtime
    group: core.Group
    addresses: Sequence[str]

    def __init__(self, number: int, size: int, test: Connection | None = None) -> None:
        self.number, self.size, self._test = number, size, test
        self.end = end_of(number)

    def start(self, settings: dict[str, Any], key: bytes, timeout_s: float) -> None:
        self.runtime = core.Runtime(settings)
        self.tell(self.runtime.address)
        self.addresses = self._test.recv()
        self.group = self.make_group(key, timeout_s)

    def make_group(self, key: bytes, timeout_s: float = LIMIT_S) -> core.Group:
        return core.Group(self.runtime, "test", key, self.number, self.addresses, timeout_s)

    def tell(self, what: object) -> None:
        """To the test, which asks for it by Job.told()."""
        self._test.send(("told", what))

    def asked(self, wait_s: float = 0.0) -> bool:
        """True once the test has called Job.ask(), which may be waited for."""
        return self._test.poll(wait_s)

    def leave(self) -> None:
        """Ends group and runtime and gives up what they hold."""
        if hasattr(self, "group"):
            self.group.close()
            del self.group
        if hasattr(self, "runtime"):
            self.runtime.shutdown()
            del self.runtime


@dataclass
class Outcome:
    """How a rank's body ended."""

    value: Any = None
    error: BaseException | None = None
    trace: str = ""
    at: float = 0.0  # by time.monotonic(), the same clock everywhere
    log: list[tuple[str, str]] = field(default_factory=list)
    stats: dict[str, int] = field(default_factory=dict)

    def said(self, severity: str, *parts: str) -> bool:
        """There is an entry of the log that has all these parts."""
        return any(level == severity and all(p in text for p in parts) for level, text in self.log)

    def warnings(self) -> list[str]:
        return warnings_of(self.log)


def warnings_of(log: Sequence[tuple[str, str]]) -> list[str]:
    """A busy machine may keep a rank silent for a second, which its peers say: that does not count."""
    texts = [text for severity, text in log if severity == "warning"]
    return [text for text in texts if "nothing heard" not in text]


Body = Callable[[Rank], object]


def end_of(rank: int) -> bed.End:
    """Ranks 0, 2, ... are at one end of the wire, ranks 1, 3, ... at the other."""
    places = bed.ends()
    return places[rank % len(places)]


def settings_of(rank: int, size: int, variables: dict[str, str]) -> dict[str, Any]:
    end = end_of(rank)
    os.environ.update({"ROCECOLL_IB_HCA": f"={end.device}"} | variables)
    # All are on this host, unless the variables of a launcher say that they are on others.
    return options.runtime_settings(
        options.resolve(), end.address, environment.local_ranks() or size
    )


def drain_log() -> list[tuple[str, str]]:
    entries = []
    while (entry := core.take_log_entry(0)) is not None:
        entries.append(entry)
    return entries


class Job:
    """`size` ranks that run `body`. Leaving the context ends what has not ended.

    Without a `transport` it is the default. `variables` are ROCECOLL_ options for all, `own` for
    single ranks. The limit of every operation is `timeout_s`.
    """

    def __init__(
        self,
        size: int,
        body: Body,
        transport: str | None,
        *,
        variables: dict[str, str] | None = None,
        own: dict[int, dict[str, str]] | None = None,
        timeout_s: float = LIMIT_S,
    ) -> None:
        self.size, self.body, self.timeout_s = size, body, timeout_s
        self.key = os.urandom(16)
        self._variables = [
            # Ranks of one guest would share memory.
            {"ROCECOLL_SHM": "0"}
            | ({"ROCECOLL_TRANSPORT": transport} if transport else {})
            | (variables or {})
            | (own or {}).get(rank, {})
            for rank in range(size)
        ]
        self._pipes: list[Connection] = []
        self._processes: list[ForkProcess] = []
        self._told: list[list[object]] = [[] for _ in range(size)]
        self._outcomes: list[Outcome | None] = [None] * size

    def __enter__(self) -> Job:
        for rank in range(self.size):
            here, there = _fork.Pipe()
            process = _fork.Process(target=self._rank_main, args=(rank, here, there), daemon=True)
            process.start()
            there.close()
            self._pipes.append(here)
            self._processes.append(process)
        addresses = [self.told(rank) for rank in range(self.size)]
        for pipe in self._pipes:
            pipe.send(addresses)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(0 if error else CLOSING_S)
            if process.is_alive():
                process.kill()
                process.join()

    # -- the test's side

    def pid(self, rank: int) -> int:
        pid = self._processes[rank].pid
        assert pid is not None
        return pid

    def told(self, rank: int, limit_s: float = LIMIT_S) -> Any:
        """The next thing that this rank tells. Fails if its body ends without."""
        deadline = time.monotonic() + limit_s
        while not self._told[rank]:
            outcome = self._outcomes[rank]
            assert outcome is None, f"rank {rank} ended: {outcome.trace or outcome.value}"
            self._take(deadline, f"a word of rank {rank}")
        return self._told[rank].pop(0)

    def ask(self) -> None:
        """All ranks that live; see Rank.asked()."""
        for rank, pipe in enumerate(self._pipes):
            if self._outcomes[rank] is None:
                pipe.send("asked")

    def kill(self, rank: int) -> float:
        """As by `kill -9`; returns when."""
        os.kill(self.pid(rank), signal.SIGKILL)
        self._outcomes[rank] = Outcome(error=ProcessLookupError("killed"))
        return time.monotonic()

    def outcomes(self, limit_s: float = LIMIT_S) -> list[Outcome]:
        """Of all ranks, once all bodies have ended."""
        deadline = time.monotonic() + limit_s
        while None in self._outcomes:
            self._take(deadline, "the ranks' end")
        return [outcome for outcome in self._outcomes if outcome is not None]

    def values(self, limit_s: float = LIMIT_S) -> list[Any]:
        """What the bodies have returned. Fails with their errors."""
        outcomes = self.outcomes(limit_s)
        failed = [
            f"rank {rank}: {outcome.trace}"
            for rank, outcome in enumerate(outcomes)
            if outcome.error is not None
        ]
        assert not failed, "\n".join(failed)
        return [outcome.value for outcome in outcomes]

    def _take(self, deadline: float, what: str) -> None:
        open_pipes = {
            id(pipe): rank
            for rank, pipe in enumerate(self._pipes)
            if self._outcomes[rank] is None and not pipe.closed
        }
        pipes = [pipe for pipe in self._pipes if id(pipe) in open_pipes]
        ready = wait(pipes, max(0.0, deadline - time.monotonic()))
        assert ready, f"not within the limit: {what}; ended: {self._outcomes}"
        for pipe in pipes:
            if pipe not in ready:
                continue
            rank = open_pipes[id(pipe)]
            try:
                kind, content = pipe.recv()
            except EOFError:
                kind, content = "ended", Outcome(error=EOFError("the process died"), trace="died")
            if kind == "told":
                self._told[rank].append(content)
            else:
                self._outcomes[rank] = content

    # -- the rank's side

    def _rank_main(self, number: int, tests_end: Connection, test: Connection) -> None:
        for pipe in (*self._pipes, tests_end):  # inherited; the test's end must be its alone
            pipe.close()
        outcome = Outcome()
        rank = Rank(number, self.size, test)
        try:
            settings = settings_of(number, self.size, self._variables[number])
            rank.start(settings, self.key, self.timeout_s)
            outcome.value = self.body(rank)
        except EOFError:
            return  # the test is over
        except BaseException as error:
            outcome.error, outcome.trace = error, traceback.format_exc()
        outcome.at = time.monotonic()
        outcome.log = drain_log()
        outcome.stats = rank.runtime.stats() if hasattr(rank, "runtime") else {}
        test.send(("ended", outcome))
        while test.poll(LIMIT_S):  # until all have ended: leaving early is another test
            try:
                test.recv()
            except EOFError:
                break
        rank.leave()
