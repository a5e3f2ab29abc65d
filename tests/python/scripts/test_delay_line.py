# SPDX-License-Identifier: Apache-2.0
"""The cable of scripts/benchmarks/delay_line.cc: what it delays, what it drops, and when it ends.

Frames are put on one of its TAP devices by a socket, and taken from the other.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from bench_networks import need
from benchmarks import delay_line, native
from benchmarks.commands import CommandError, run, running
from benchmarks.links import in_namespace, namespaces, wait_until_running
from benchmarks.network_spec import Spec, parse
from namespaces import inside
from waiting import wait_until

NAME = f"rocecoll{os.getpid()}d"
TYPE = 0x88B5  # for experiments
LIMIT_S = 60
FRAME_BYTES = 100


@pytest.fixture
def taps() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Sockets at both devices, which nothing else uses."""
    need("veth:delay=1ms")
    with namespaces([NAME]):
        for tap in delay_line.TAPS:
            run("ip", "-n", NAME, "tuntap", "add", "dev", tap, "mode", "tap")
            words = ["ip", "-n", NAME, "link", "set", tap]
            run(*words, "addrgenmode", "none", "up")  # no packets of IPv6's own
        with contextlib.ExitStack() as stack:
            first, second = (stack.enter_context(opened(tap)) for tap in delay_line.TAPS)
            yield first, second


def opened(device: str) -> socket.socket:
    with inside(NAME):
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(TYPE))
        made.bind((device, TYPE))
    made.settimeout(LIMIT_S)
    return made


def command(spec: Spec, counters: Path) -> list[str]:
    program = str(native.build_program(delay_line.PROGRAM))
    return in_namespace(NAME, program, *delay_line.arguments(spec, counters))


def frame(number: int) -> bytes:
    header = bytes([255] * 6 + [2, 0, 0, 0, 0, 1]) + struct.pack("!HI", TYPE, number)
    return header.ljust(FRAME_BYTES, b"\0")


def numbers(taking: socket.socket, count: int) -> list[int]:
    """Of the next frames that came over the cable: a socket also sees what goes out at its device."""
    found: list[int] = []
    while len(found) < count:
        data, address = taking.recvfrom(2048)
        if address[2] != socket.PACKET_OUTGOING:
            found += struct.unpack_from("!I", data, 14)
    return found


def test_frames_wait_for_the_delay_and_keep_their_order(
    taps: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    first, second = taps
    with cable("veth:delay=30ms", tmp_path):
        started = time.monotonic()
        for number in range(100):
            first.send(frame(number))
        assert numbers(second, 100) == list(range(100))
        second.send(frame(7))
        assert numbers(first, 1) == [7]
        assert time.monotonic() - started >= 0.06  # once there, once back


@pytest.mark.parametrize("more", ["jitter=20ms", "reorder=10"])
def test_frames_overtake_each_other(
    taps: tuple[socket.socket, socket.socket], tmp_path: Path, more: str
) -> None:
    first, second = taps
    with cable(f"veth:delay=100ms,{more}", tmp_path):
        for number in range(200):
            first.send(frame(number))
        came = numbers(second, 200)
    assert came != list(range(200)) and sorted(came) == list(range(200))


@pytest.mark.parametrize(
    "bound", [("MOST_FRAMES", 10), ("MOST_BYTES", 20 * FRAME_BYTES)], ids=["frames", "bytes"]
)
def test_what_has_no_room_is_dropped_and_counted(
    taps: tuple[socket.socket, socket.socket],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bound: tuple[str, int],
) -> None:
    first, second = taps
    monkeypatch.setattr(delay_line, *bound)  # a frame's share of it is below 2 * FRAME_BYTES
    ends = delay_line.ends(NAME, tmp_path / "counters")
    with cable("veth:delay=1s", tmp_path):
        for number in range(100):
            first.send(frame(number))
        wait_until(lambda: ends[0].packets()[0] == 100, "all packets were taken", LIMIT_S)
        dropped = ends[0].packets()[1]
        assert dropped > 0
        found = numbers(second, 100 - dropped)
        # If this machine stood still for a second meanwhile, the first frames have made room for
        # others.
        assert found[:10] == list(range(10))
        assert ends[1].packets() == (0, 0)


@contextlib.contextmanager
def cable(name: str, directory: Path) -> Iterator[None]:
    with running(command(parse(name), directory / "counters")):
        for tap in delay_line.TAPS:
            wait_until_running(NAME, tap)
        yield


@pytest.mark.usefixtures("taps")
def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    words = command(parse("veth:delay=1ms"), tmp_path / "counters")
    program = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen({words!r}, stdout=subprocess.PIPE)\n"
        "print(child.stdout.readline().decode().strip(), child.pid, flush=True)\n"
        "sys.stdin.read()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    said, pid = parent.stdout.readline().split()
    assert said == "ready"
    relay = psutil.Process(int(pid))
    assert relay.name() == delay_line.PROGRAM
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    wait_until(
        lambda: not relay.is_running() or relay.status() == psutil.STATUS_ZOMBIE,
        "the relay ends",
        LIMIT_S,
    )


def test_a_program_that_cannot_begin_is_told_in_its_own_words(tmp_path: Path) -> None:
    if os.geteuid() != 0 or not delay_line.TUN.exists():
        pytest.skip("needs root and TUN/TAP")
    program = str(native.build_program(delay_line.PROGRAM))
    spec = parse("veth:delay=1ms")
    words = [program, *delay_line.arguments(spec, tmp_path / "no" / "counters")]
    words[1:3] = [f"rct{os.getpid() % 100000}a", f"rct{os.getpid() % 100000}b"]
    told = r"has ended: delay_line: \S+counters: No such file"
    with pytest.raises(CommandError, match=told), running(words):
        raise AssertionError("it says that it is ready")
