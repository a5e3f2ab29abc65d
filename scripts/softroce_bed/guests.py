# SPDX-License-Identifier: Apache-2.0
"""Runs a job in virtual machines: one or two guests, whatever emulates them.

A bed of this kind is a Machine: it says which process is the guest. Everything else is the same:
the control directory that the guests mount (guest_init.sh says what is in it), the pipes their
output comes through, the wire between two, the supervision, and what the end means.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from softroce_bed import warden, wire
from softroce_bed.bed import EXIT_BROKEN, EXIT_LIMIT, BedError, Job, say
from softroce_bed.console import Console
from softroce_bed.relay import Relay
from softroce_bed.terminal import connected

HERE = Path(__file__).resolve().parent
GUEST_SCRIPTS = ("guest_init.sh", "guest_network.sh", "native_run.sh")


@dataclass(frozen=True)
class Guest:
    """What a machine has to connect. Descriptors are open in the guest's process, same numbers."""

    number: int
    control: Path  # to be mountable inside, writable
    memory_mib: int
    console_fd: int  # write ends of pipes: kernel messages (also the process's stdout and stderr),
    stdout_fd: int  # and what the job writes
    stderr_fd: int
    terminal_fd: int | None  # a pseudo-terminal for an interactive job
    wire_fd: int | None  # a datagram socket, one Ethernet frame each; None with one guest

    def fds(self) -> list[int]:
        fds = [self.console_fd, self.stdout_fd, self.stderr_fd, self.terminal_fd, self.wire_fd]
        return [fd for fd in fds if fd is not None]


@dataclass(frozen=True)
class Process:
    command: Sequence[str]
    environment: dict[str, str]  # on top of the runner's
    afterwards: Sequence[str] = ()  # run when the process has ended, however that was


class Machine(Protocol):
    name: str

    def process(self, guest: Guest) -> Process:
        """The process that is the guest: it boots guest_init.sh, and ends when that powers off."""
        ...


def export_lines(variables: dict[str, str]) -> str:
    return "".join(
        f"export {name}={shlex.quote(value)}\n"
        for name, value in sorted(variables.items())
        if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII)
    )


def job_script(job: Job) -> str:
    """Runs the command with the caller's environment; only directories for scratch files differ."""
    inherited = {
        name: value for name, value in job.environment.items() if not name.startswith("SOFTROCE_")
    }
    inherited |= {"TMPDIR": "/tmp"}
    return (
        "unset LC_ALL\n"  # guest_init.sh has its own
        + export_lines(inherited)
        + f"cd {shlex.quote(str(job.directory))} || exit {EXIT_BROKEN}\n"
        + f"exec {shlex.join(job.command)}\n"
    )


def write_control(control: Path, bed: str, job: Job) -> None:
    for name in GUEST_SCRIPTS:
        shutil.copy(HERE / name, control / name)
    (control / "out").mkdir()
    (control / "job.sh").write_text(job_script(job))
    columns, rows = shutil.get_terminal_size()
    for guest in range(job.guests):
        settings = wire.variables(bed, job, guest) | {
            "SOFTROCE_OUT": str(control / "out"),
            "SOFTROCE_KILL": str(control / "kill"),
            "SOFTROCE_PYTHON": os.path.realpath(sys.executable),
            "SOFTROCE_ROWS": str(rows),
            "SOFTROCE_COLUMNS": str(columns),
        }
        (control / f"settings.{guest}.sh").write_text(export_lines(settings))


@contextmanager
def control_directory(job: Job) -> Iterator[Path]:
    """Results are taken out of it however the job ends."""
    with tempfile.TemporaryDirectory(prefix="softroce-", ignore_cleanup_errors=True) as name:
        control = Path(name).resolve()
        if " " in str(control):
            raise BedError(f"TMPDIR must not have a space in its path: {control.parent}")
        try:
            yield control
        finally:
            if job.out is not None and (control / "out").is_dir():
                shutil.copytree(control / "out", job.out, dirs_exist_ok=True)


def room_for_guests(processors: int) -> int:
    """How many guests with this many processors this machine has processors and memory for."""
    memory_bytes: int = psutil.virtual_memory().available
    room = min(len(os.sched_getaffinity(0)) // processors, memory_bytes // (Job.memory_mib << 20))
    return max(1, room)


def run_guests(machine: Machine, job: Job) -> int:
    """Bed.run for machines."""
    with ExitStack() as stack:
        terminal = stack.enter_context(connected()) if job.interactive else None
        control = stack.enter_context(control_directory(job))
        write_control(control, machine.name, job)
        return Run(machine, job, control, terminal).to_the_end()


class Run:
    """One run: the warden with its guests, and the relay of their output."""

    def __init__(self, machine: Machine, job: Job, control: Path, terminal: int | None) -> None:
        self.machine, self.job, self.control, self.terminal = machine, job, control, terminal
        self.consoles = [Console() for _ in range(job.guests)]

    def to_the_end(self) -> int:
        with ExitStack() as stack:
            relay = stack.enter_context(Relay(prefixed=self.job.guests > 1))
            guests = self.make_guests(relay)
            given = [fd for guest in guests for fd in guest.fds()]
            try:
                lifeline, result, process = self.start_warden(guests, given)
            finally:
                for fd in given:
                    os.close(fd)
            # Leaving by an exception closes the lifeline, and the warden ends everything.
            stack.callback(process.wait)
            stack.callback(os.close, result)
            stack.callback(os.close, lifeline)
            relay.pump()
            text = b""
            while piece := os.read(result, 65536):
                text += piece
        if not text:
            raise BedError(f"the supervisor of the guests ended with status {process.returncode}")
        return self.judge([(how, status) for how, status in json.loads(text)])

    def make_guests(self, relay: Relay) -> list[Guest]:
        wires: list[int | None] = [None]
        if self.job.guests == 2:
            ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            wires = [end.detach() for end in ends]
        return [
            Guest(
                number=number,
                control=self.control,
                memory_mib=self.job.memory_mib,
                console_fd=relay.pipe(self.consoles[number].feed),
                stdout_fd=relay.pipe(relay.writer(number, sys.stdout.fileno())),
                stderr_fd=relay.pipe(relay.writer(number, sys.stderr.fileno())),
                terminal_fd=self.terminal,
                wire_fd=wires[number],
            )
            for number in range(self.job.guests)
        ]

    def start_warden(
        self, guests: list[Guest], given: list[int]
    ) -> tuple[int, int, subprocess.Popen[bytes]]:
        """Returns the lifeline, the end that the result comes from, and the process."""
        specification = {
            "control": str(self.control),
            "limit_s": self.job.limit_s,
            "guests": [
                {
                    "command": list(process.command),
                    "environment": process.environment,
                    "afterwards": list(process.afterwards),
                    "console_fd": guest.console_fd,
                    "fds": guest.fds(),
                    "wire_fd": guest.wire_fd,
                }
                for guest in guests
                for process in [self.machine.process(guest)]
            ],
        }
        path = self.control / "specification.json"
        path.write_text(json.dumps(specification))
        held, lifeline = os.pipe()[::-1]
        result, written = os.pipe()
        command = [sys.executable, "-I", warden.__file__, str(path), str(lifeline), str(written)]
        try:
            process = subprocess.Popen(
                command,
                pass_fds=[*given, lifeline, written],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            os.close(lifeline)
            os.close(written)
        return held, result, process

    def judge(self, ends: list[tuple[str, int]]) -> int:
        """The exit status of the run; what there is to say about it goes to stderr."""
        statuses = [self.status_of(number, *end) for number, end in enumerate(ends)]
        return next((status for status in statuses if status), 0)

    def status_of(self, number: int, how: str, process_status: int) -> int:
        console = self.consoles[number]
        if complaint := console.complaint():
            say(f"guest {number}: the kernel complains:")
            print(complaint, file=sys.stderr)
            return EXIT_BROKEN
        if how == warden.LIMIT:
            say(f"guest {number}: ended at the time limit of {self.job.limit_s:g} s; its console:")
            print(console.tail(), file=sys.stderr)
            return EXIT_LIMIT
        if how == warden.KILLED:
            say(f"guest {number}: killed, as was asked for")
            return 0
        try:
            return int((self.control / f"status.{number}").read_text())
        except (OSError, ValueError):
            say(f"guest {number}: went away (process status {process_status}); its console:")
            print(console.tail(), file=sys.stderr)
            return EXIT_BROKEN
