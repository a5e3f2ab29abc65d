# SPDX-License-Identifier: Apache-2.0
"""Runs inside a bed: libibverbs' own ping-pong over the wire, and proof that it was the wire.

    pingpong.py rc|ud [--ipv6] [--faulty]

A device that sends to itself bypasses the network and its faults without any error. So this checks that
the interfaces carried what was sent, and with --faulty that packets were repeated.

The job's faults are off until messages are in flight, and again once faults have been seen: programs
start and end on a clean wire. A lost last acknowledgement is not repeated, because its sender has ended,
and an end whose peer has failed waits for ever.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

MESSAGE_BYTES = {"rc": 16384, "ud": 2048}
ITERATIONS = 200
FAULTY_ITERATIONS = 5000  # the faults come and go within them
UNDER_WAY = 50  # messages
ATTEMPTS = 10  # to see a fault
LIMIT_S = 600
POLL_S = 0.05
# Packets that the other side asked for again, or that came twice.
REPETITIONS = ("duplicate_request", "out_of_seq_request", "rcvd_seq_err", "completer_retry_err")


def command(kind: str, number: int, iterations: int) -> list[str]:
    """The second end is told where the first one listens."""
    devices = os.environ["SOFTROCE_DEVICES"].split()
    indexes = "SOFTROCE_GID_INDEXES6" if "--ipv6" in sys.argv else "SOFTROCE_GID_INDEXES"
    gids = os.environ[indexes].split()
    here = number if len(devices) == 2 else 0
    # -e: completion events; two processes that poll would take turns on one processor.
    options = ["-e", "-d", devices[here], "-g", gids[here], "-n", str(iterations)]
    alone = os.environ["SOFTROCE_GUESTS"] == "1"
    server = "127.0.0.1" if alone else os.environ["SOFTROCE_ADDRESSES"].split()[0]
    options += ["-s", str(MESSAGE_BYTES[kind]), *([server] if number == 1 else [])]
    return [f"ibv_{kind}_pingpong", *options]


class End:
    """Runs one of the two programs; leaving the context ends it."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  __exit__ closes it
        self.start()

    def start(self) -> None:
        self.errors.seek(0)
        self.errors.truncate()
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=self.errors)

    def __enter__(self) -> End:
        return self

    def __exit__(self, *unused: object) -> None:
        self.process.kill()
        self.process.wait()
        self.errors.close()

    def words(self) -> str:
        self.errors.seek(0)
        return self.errors.read()

    def where(self) -> str:
        """Where the kernel says that it is."""
        if self.process.poll() is not None:
            return f"ended with status {self.process.returncode}"
        try:
            return f"is in\n{Path(f'/proc/{self.process.pid}/stack').read_text()}"
        except OSError as error:
            return str(error)


class Faults:
    """The bed's faults on the wire: begin() removes them, and they come back for a while."""

    def __init__(self, kind: str) -> None:
        self.state, self.enough_bytes = "there", UNDER_WAY * MESSAGE_BYTES[kind]

    def begin(self) -> None:
        """Called before programs start. Fails if there were no faults."""
        if self.state == "there":
            self.set(False)
        self.state, self.start_bytes = "before", carried_bytes()

    def set(self, there: bool) -> None:
        for interface in os.environ["SOFTROCE_INTERFACES"].split():
            change = ["add", "dev", interface, "root", "netem"] if there else ["delete"]
            change += os.environ["SOFTROCE_NETEM"].split() if there else ["dev", interface, "root"]
            subprocess.run(["tc", "qdisc", *change], check=True, timeout=LIMIT_S)

    def step(self) -> None:
        if self.state == "before" and carried_bytes() - self.start_bytes >= self.enough_bytes:
            self.set(True)
            self.state = "there"
        elif self.state == "there" and repetitions() > 0:
            self.set(False)
            self.state = "seen"


def carried_bytes() -> int:
    return min(map(sent_bytes, os.environ["SOFTROCE_INTERFACES"].split()))


def sent_bytes(interface: str) -> int:
    return int(Path(f"/sys/class/net/{interface}/statistics/tx_bytes").read_text())


def repetitions() -> int:
    return sum(
        int(Path(f"/sys/class/infiniband/{device}/ports/1/hw_counters/{name}").read_text())
        for device in os.environ["SOFTROCE_DEVICES"].split()
        for name in REPETITIONS
    )


def run(kind: str, numbers: list[int], iterations: int, faults: Faults | None) -> int:
    """Waits until all local ends have ended; one that fails ends the others."""
    deadline = time.monotonic() + LIMIT_S
    if faults is not None:
        faults.begin()
    with ExitStack() as stack:
        ends = {n: stack.enter_context(End(command(kind, n, iterations))) for n in numbers}
        while any(end.process.poll() != 0 for end in ends.values()):
            for number, end in ends.items():
                if not end.process.poll():
                    continue
                if "Couldn't connect" not in end.words():  # the server did not listen yet
                    return report(f"end {number} failed", ends)
                end.start()
            if time.monotonic() > deadline:
                return report(f"not at an end after {LIMIT_S} s", ends)
            if faults is not None:
                faults.step()
            time.sleep(POLL_S)
        return 0


def report(what: str, ends: dict[int, End]) -> int:
    print(what, file=sys.stderr)
    for number, end in ends.items():
        print(f"end {number} {end.where()}\n{end.words()}", file=sys.stderr)
    return 1


def main(kind: str, faulty: bool) -> int:
    alone = os.environ["SOFTROCE_GUESTS"] == "1"
    numbers = [0, 1] if alone else [int(os.environ["SOFTROCE_GUEST"])]
    faults = Faults(kind) if faulty else None
    iterations = FAULTY_ITERATIONS if faulty else ITERATIONS
    for _ in range(ATTEMPTS):
        status = run(kind, numbers, iterations, faults)
        if status or faults is None or faults.state == "seen":
            break
    for interface in os.environ["SOFTROCE_INTERFACES"].split():
        if sent_bytes(interface) < ITERATIONS * MESSAGE_BYTES[kind]:
            print(f"{interface} sent {sent_bytes(interface)} bytes: that was not all over the wire")
            status = status or 1
    if faulty and repetitions() == 0:
        print("no packet was repeated: the faults did not reach the devices")
        status = status or 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "--faulty" in sys.argv))
