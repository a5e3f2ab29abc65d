# SPDX-License-Identifier: Apache-2.0
"""Beds and guests without a kernel of their own, for the tests of scripts/softroce."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from softroce_bed.bed import ImpossibleError, Job
from softroce_bed.guests import Guest, Process


def job(*command: str, **changes: object) -> Job:
    plain = Job(command=command, directory=Path("/"), environment=dict(os.environ))
    return replace(plain, **changes)


def is_gone(pid: int) -> bool:
    """Whether it has ended, also if its parent has not reaped it."""
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # before it is opened, or read
        return True


class FakeMachine:
    """A guest that is a process of this machine. `boot` is what the shell does before the job."""

    name = "fake"

    def __init__(self, boot: str = "", afterwards: tuple[str, ...] = ()) -> None:
        self.boot, self.afterwards = boot, afterwards

    def process(self, guest: Guest) -> Process:
        script = (
            f"cd {guest.control}\n. ./settings.{guest.number}.sh\n{self.boot}\n"
            f"export WIRE_FD={guest.wire_fd}\n"
            f"bash ./job.sh </dev/null >&{guest.stdout_fd} 2>&{guest.stderr_fd}\n"
            f"echo $? >status.{guest.number}\n"
        )
        return Process(["bash", "-c", script], {}, self.afterwards)


class FakeBed:
    is_virtual = False
    patience = 1

    def __init__(
        self, name: str, obstacle: str = "", ready: bool = False, lacking: str = ""
    ) -> None:
        self.name, self.reason, self.ready, self.lacking = name, obstacle, ready, lacking
        self.jobs: list[Job] = []

    def obstacle(self) -> str:
        return self.reason

    def is_ready(self) -> bool:
        return self.ready

    def setup(self) -> None:
        if self.lacking:
            raise ImpossibleError(self.lacking)
        self.ready = True

    def room(self) -> int:
        return 1

    def run(self, job: Job) -> int:
        self.jobs.append(job)
        return 3
