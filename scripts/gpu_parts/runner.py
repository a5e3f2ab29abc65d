# SPDX-License-Identifier: Apache-2.0
"""Runs parts within their limits and all of them within a budget; one that fails or hangs ends alone."""

from __future__ import annotations

import json
import multiprocessing
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

from gpu_parts.parts import NO_NETWORK, Part
from gpu_parts.rank import Job, main

# Forked from a server that has torch, which takes seconds to load, and no CUDA, which no fork survives.
CONTEXT = multiprocessing.get_context("forkserver")
PRELOADED = ["torch", "torch.distributed"]
LEAST_S = 10.0  # with less left no part is begun
AFTER_LIMIT_S = 5.0  # in which a rank ends itself, with its stacks
AFTER_FAILURE_S = 25.0  # once a rank has failed, the others may wait for it in vain
UNENDED_S = 5.0
MOST_AT_ONCE = 4  # more would share one GPU, slice by slice
LOG_TAIL = 20_000

PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"


@dataclass
class Result:
    part: Part
    state: str
    words: list[str] = field(default_factory=list)  # what failed, or why it did not run
    seconds: float = 0.0
    told: dict[str, Any] = field(default_factory=dict)  # by rank 0
    log: str = ""


@dataclass(frozen=True)
class Choice:
    device: str
    small: bool


class Running:
    """The ranks of one part."""

    def __init__(self, part: Part, choice: Choice, limit_s: float) -> None:
        self.part = part
        self.limit_s = limit_s
        self._directory = tempfile.TemporaryDirectory(prefix="rocecoll-gpu-")
        self._jobs = [
            Job(
                program=part.program,
                number=number,
                size=part.ranks,
                device=choice.device,
                small=choice.small or part.small,
                limit_s=limit_s,
                directory=self._directory.name,
                variables={**NO_NETWORK, **part.variables},
            )
            for number in range(part.ranks)
        ]
        self._begun = time.monotonic()
        self.end = self._begun + limit_s + AFTER_LIMIT_S
        self._processes: list[BaseProcess] = []
        for job in self._jobs:
            # No daemon: those may have no children, as the tests of devices do.
            process = CONTEXT.Process(target=main, args=(job,), name=f"{part.name} {job.number}")
            process.start()
            self._processes.append(process)
        self._ended: list[int | None] = [None] * part.ranks  # as is_over() has seen it last

    @property
    def sentinels(self) -> list[int]:
        """Also of who has ended since is_over(): nothing else would tell of it."""
        pairs = zip(self._processes, self._ended, strict=True)
        return [process.sentinel for process, status in pairs if status is None]

    def is_over(self) -> bool:
        """Whether all ranks have ended, or will not be waited for any longer."""
        self._ended = [process.exitcode for process in self._processes]
        if None not in self._ended:
            return True
        if any(self._unexpected(number) for number in range(self.part.ranks)):
            self.end = min(self.end, time.monotonic() + AFTER_FAILURE_S)
        return time.monotonic() > self.end

    def kill(self) -> None:
        for process in self._processes:
            if process.exitcode is None:
                process.kill()
        for process in self._processes:
            process.join(UNENDED_S)

    def result(self) -> Result:
        alive = [
            number for number, process in enumerate(self._processes) if process.exitcode is None
        ]
        self.kill()
        findings = sorted(self._findings(), key=lambda finding: finding["at_s"])
        words = [f"rank {one['rank']}: {one['failed']}" for one in findings if "failed" in one]
        cannot = [str(one["cannot"]) for one in findings if "cannot" in one]
        told = {one["told"]: one["value"] for one in findings if "told" in one and one["rank"] == 0}
        spent = time.monotonic() - self._begun
        if alive or spent >= self.limit_s:
            words.insert(0, f"out of time: had not ended after {self.limit_s:.0f} s")
        for number, process in enumerate(self._processes):
            spoke = any(
                one["rank"] == number and one.keys() & {"failed", "cannot"} for one in findings
            )
            if number not in alive and self._unexpected(number) and not spoke:
                words.append(f"rank {number}: {ending(process.exitcode)}")
        state, log = FAILED if words else PASSED, self._log()
        if cannot and not words:
            state, words = NOT_RUN, cannot[:1]
        self._directory.cleanup()
        return Result(self.part, state, words, spent, told, log)

    def _unexpected(self, number: int) -> bool:
        """Whether the rank has ended as it should not have."""
        status = self._processes[number].exitcode
        usual = -signal.SIGKILL if number == self.part.killed else 0
        return status is not None and status != usual

    def _findings(self) -> Iterable[dict[str, Any]]:
        for job in self._jobs:
            path = job.path("jsonl")
            for line in path.read_text().splitlines() if path.exists() else []:
                yield json.loads(line)

    def _log(self) -> str:
        text = ""
        for job in self._jobs:
            path = job.path("log")
            tail = path.read_text(errors="replace")[-LOG_TAIL:] if path.exists() else ""
            text += f"--- rank {job.number}\n{tail}\n" if tail.strip() else ""
        return text


def ending(status: int | None) -> str:
    if status is not None and status < 0:
        return f"ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"


def preload() -> None:
    """Before the first process."""
    CONTEXT.set_forkserver_preload(PRELOADED)


class Runner:
    """`tell` is called with each result as it comes."""

    def __init__(self, choice: Choice, end: float, tell: Callable[[Result], None]) -> None:
        self._choice, self._end, self._tell = choice, end, tell
        self._running: list[Running] = []
        self.results: list[Result] = []

    def run(self, parts: Sequence[Part], at_once: int) -> None:
        """Those that stand alone come last, one by one."""
        try:
            for alone, most in ((False, at_once), (True, 1)):
                for part in (part for part in parts if part.alone == alone):
                    self._settle(most - 1)
                    self._begin(part)
                self._settle(0)
        finally:
            for running in self._running:
                running.kill()

    def _begin(self, part: Part) -> None:
        left = self._end - time.monotonic() - AFTER_LIMIT_S
        if self._choice.device in part.lacks:
            self._take(Result(part, NOT_RUN, [part.lacks[self._choice.device]]))
        elif left < LEAST_S:
            self._take(Result(part, NOT_RUN, ["no time was left"]))
        else:
            self._running.append(Running(part, self._choice, min(part.limit_s, left)))

    def _settle(self, most: int) -> None:
        """Waits until no more than so many are running."""
        while len(self._running) > most:
            sentinels = [sentinel for running in self._running for sentinel in running.sentinels]
            next_end = min(running.end for running in self._running)
            wait(sentinels, timeout=max(0.05, next_end - time.monotonic()))
            for running in [running for running in self._running if running.is_over()]:
                self._running.remove(running)
                self._take(running.result())

    def _take(self, result: Result) -> None:
        self.results.append(result)
        self._tell(result)


def ask(function: Callable[..., Any], *arguments: Any, limit_s: float = 60.0) -> Any:
    """What it returns in a process of its own, which may touch CUDA. Raises RuntimeError."""
    ours, theirs = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=answer, args=(theirs, function, arguments))
    process.start()
    theirs.close()
    try:
        if ours.poll(limit_s):
            return ours.recv()
        raise RuntimeError(f"{function.__name__}: no answer in {limit_s:g} s")
    except EOFError:
        process.join(UNENDED_S)
        raise RuntimeError(f"{function.__name__}: {ending(process.exitcode)}") from None
    finally:
        process.kill()
        process.join(UNENDED_S)


def answer(pipe: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    pipe.send(function(*arguments))
