# SPDX-License-Identifier: Apache-2.0
"""A long cable between two bridges of a namespace: delay_line.cc, which has a TAP device in each."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import native
from benchmarks.commands import run, running
from benchmarks.links import in_namespace, wait_until_running
from benchmarks.network_spec import NetworkError, Spec

PROGRAM = "delay_line"
TUN = Path("/dev/net/tun")
TAPS = ("tap0", "tap1")
# The most bytes in each direction: half a second at 1 Gbit/s.
MOST_FRAMES, MOST_BYTES = 1 << 16, 64 << 20
# The packets that the kernel queues in each direction for a late program before it drops; its default is 1000.
QUEUE_FRAMES = 10_000
VLAN_TAG_BYTES = 4
COUNTERS = "=4Q"


@dataclass(frozen=True)
class Overflow:
    """The packets from a device that the cable, or the kernel in front of it, had no room for."""

    namespace: str
    device: str
    counters: str

    def packets(self) -> tuple[int, int]:
        """How many packets have come so far, and how many of them were dropped."""
        words = ["ip", "-n", self.namespace, "-s", "-j", "link", "show", "dev", self.device]
        unseen = json.loads(run(*words))[0]["stats64"]["tx"]["dropped"]
        both = struct.unpack(COUNTERS, Path(self.counters).read_bytes())
        came, dropped = both[2 * TAPS.index(self.device) :][:2]
        return came + unseen, dropped + unseen


def require() -> None:
    """Raises NetworkError if such a cable cannot be made here."""
    if os.geteuid() != 0:
        raise NetworkError("a delay needs root, who may make TAP devices")
    if not os.access(TUN, os.R_OK | os.W_OK):
        raise NetworkError(f"a delay needs {TUN} (TUN/TAP), which is not there or not to be opened")


def arguments(spec: Spec, counters: Path) -> list[str]:
    times = (spec.delay_us, spec.jitter_us, spec.reorder_percent)
    bounds = (spec.frame_bytes + VLAN_TAG_BYTES, MOST_FRAMES, MOST_BYTES)
    return [*TAPS, str(counters), *map(str, (*times, *bounds))]


def ends(namespace: str, counters: Path) -> tuple[Overflow, Overflow]:
    first, second = (Overflow(namespace, tap, str(counters)) for tap in TAPS)
    return first, second


@contextmanager
def laid(
    namespace: str, bridges: tuple[str, str], spec: Spec, directory: Path
) -> Iterator[tuple[Overflow, Overflow]]:
    """From the first bridge to the second and back, until the end of the block; its counters are in the
    directory. Yields what has no room on the way from the first, and from the second."""
    program, counters = native.build_program(PROGRAM), directory / "delayed"
    inside = ["ip", "-n", namespace]
    for tap, bridge in zip(TAPS, bridges, strict=True):
        run(*inside, "tuntap", "add", "dev", tap, "mode", "tap")
        run(*inside, "link", "set", tap, "mtu", str(spec.mtu), "txqueuelen", str(QUEUE_FRAMES))
        run(*inside, "link", "set", tap, "master", bridge, "up")
    words = in_namespace(namespace, str(program), *arguments(spec, counters))
    with running(words):
        for tap in TAPS:
            wait_until_running(namespace, tap)
        yield ends(namespace, counters)
