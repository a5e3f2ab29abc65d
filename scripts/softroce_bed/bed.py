# SPDX-License-Identifier: Apache-2.0
"""What every bed offers, and what is asked of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

# Like those of timeout(1) and env(1): the command ran too long; the program that runs it failed.
EXIT_LIMIT = 124
EXIT_BROKEN = 125
EXIT_IMPOSSIBLE = 69  # EX_UNAVAILABLE of sysexits.h


def say(text: str) -> None:
    """For the person at the terminal; a command's own output is all there is on stdout."""
    print(f"softroce: {text}", file=sys.stderr, flush=True)


class BedError(Exception):
    """Says what is wrong and what would help, for the person at the terminal."""


class ImpossibleError(BedError):
    """Nothing is broken, but this machine or user cannot use the bed."""


@dataclass(frozen=True)
class Job:
    """A command for one guest, or the same command for each of two guests that share a wire."""

    command: tuple[str, ...]
    directory: Path
    environment: Mapping[str, str]
    guests: int = 1
    netem: str = ""  # arguments of `tc qdisc ... netem`, for both ends of the wire
    limit_s: float = 600
    memory_mib: int = 3072  # of each guest
    out: Path | None = None  # receives what the command leaves in $SOFTROCE_OUT
    interactive: bool = False  # the command gets this terminal; one guest only


class Bed(Protocol):
    name: str
    patience: int  # how many times longer than elsewhere a test may take
    # Whether it has kernels of its own: up to two guests, whose kernel messages are checked, and which
    # cannot change the host's files.
    is_virtual: bool

    def obstacle(self) -> str:
        """Why this machine can never have this bed, and what would change that; "" if it can."""
        ...

    def is_ready(self) -> bool:
        """True if `run` needs no `setup`. Cheap, and changes nothing."""
        ...

    def setup(self) -> None:
        """Makes it ready; says what it installs or builds, and nothing if all is there.

        Raises ImpossibleError, with the commands to give if it lacks the right to install.
        """
        ...

    def room(self) -> int:
        """How many guests may run at once, in separate jobs, without slowing each other down."""
        ...

    def run(self, job: Job) -> int:
        """Runs the job to its end and leaves nothing behind, however it ends.

        Output is passed on as it comes. Returns the command's exit status (of two guests the first
        that is not 0), EXIT_LIMIT, or EXIT_BROKEN if the kernel complained or a guest went away.
        Must be called under `signals_raise`.
        """
        ...
