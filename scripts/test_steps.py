# SPDX-License-Identifier: Apache-2.0
"""Runs the steps of ./scripts/test, each in a process group of its own, and keeps how long each took."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from processor_time import reaped_s
from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
# In case the test runner itself hangs: no working run takes nearly this long.
GUARD_S = 3 * 3600
GRACE_S = 120  # after the guard ends it, to report what has finished and what was running

console = Console(highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Cost:
    title: str
    seconds: float
    processor_s: float  # of the step and all children that it has waited for


costs: list[Cost] = []


def take_interrupts() -> None:
    """A shell's background processes ignore SIGINT, and so would all processes that they start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Also ends what a step has left running: an interrupted pytest may leave the process of its tests."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Step:
    """A command that has begun. With `output` it runs beside others, and its output goes there."""

    def __init__(
        self, title: str, command: list[str], output: Path | None = None, **environment: str
    ) -> None:
        self.title, self.output = title, output
        aside = "" if output is None else ", beside the next"
        console.print(f"[bold]== {title}{aside}[/bold]  {shlex.join(command)}")
        with contextlib.ExitStack() as files:
            file = None if output is None else files.enter_context(output.open("wb"))
            self.started = self.ended = time.monotonic()
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **environment},
                stdout=file,
                stderr=None if file is None else subprocess.STDOUT,
                start_new_session=True,
            )
        self.watcher = threading.Thread(target=self._note_end, daemon=True)
        self.watcher.start()

    def __enter__(self) -> Step:
        return self

    def __exit__(self, *_: object) -> None:
        end_group(self.process)

    def _note_end(self) -> None:
        with contextlib.suppress(ChildProcessError):  # end() has begun meanwhile
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        self.ended = time.monotonic()

    def end(self) -> int:
        """Waits for it, says how long it took and returns its status; ends all of it at the guard."""
        before_s = reaped_s()
        try:
            status = self.process.wait(timeout=GUARD_S)
            note = "" if status == 0 else f", exit status {status}"
        except subprocess.TimeoutExpired:
            status, note = 124, f": ended at the guard of {GUARD_S} s"
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=GRACE_S)
        finally:
            end_group(self.process)
            self.watcher.join()
        if self.output is not None:
            show(self.title, self.output)
        costs.append(Cost(self.title, self.ended - self.started, reaped_s() - before_s))
        console.print(f"== {self.title}: {costs[-1].seconds:.1f} s{note}")
        return status


def show(title: str, output: Path) -> None:
    console.print(f"[bold]== {title}[/bold]")
    sys.stdout.flush()
    with output.open("rb") as said:
        shutil.copyfileobj(said, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def run_step(title: str, command: list[str], **environment: str) -> int:
    return Step(title, command, **environment).end()
