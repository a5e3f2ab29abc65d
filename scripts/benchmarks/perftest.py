# SPDX-License-Identifier: Apache-2.0
"""The bandwidth of perftest between the two devices of a guest, in bytes a second.

perftest's own figure needs the processor's frequency in /proc/cpuinfo, which User-Mode Linux does not have,
and a calibration that fails on a busy machine. Its mode of fixed duration needs neither, but cannot wait for
events, and two ends that poll starve each other on one processor. So its packets are counted where they
leave: all RoCE packets have the MTU's size, as messages are multiples of it.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import perftest_ends
from benchmarks.cases import Transport

PACKET_BYTES = 4096  # the wire's RoCE MTU
LIMIT_S = 60.0
SAMPLE_S = 0.01
# The part of all packets over which the rate is measured: without connection set-up and the last few.
BEGIN, END = 0.1, 0.9
PROGRAMS = {
    # The receiver of writes sleeps; only the sender polls.
    Transport.rc: ("ib_write_bw", "-N"),
    Transport.ud: ("ib_send_bw", "-N", "-c", "UD", "-e"),
}

Sample = tuple[float, int]  # seconds, packets sent so far


def run_of(
    transport: Transport, size_bytes: int, total_bytes: int
) -> tuple[tuple[str, ...], int, int]:
    """The program, the size of its messages and how many: UD has none larger than a packet."""
    size = size_bytes if transport is Transport.rc else min(size_bytes, PACKET_BYTES)
    return PROGRAMS[transport], size, total_bytes // size


def time_of(samples: Sequence[Sample], packets: float) -> float:
    """The time at which this many had been sent, by interpolation."""
    later = next(i for i, (_, sent) in enumerate(samples) if sent >= packets)
    if later == 0:
        return samples[0][0]
    (t0, n0), (t1, n1) = samples[later - 1], samples[later]
    return t0 + (t1 - t0) * (packets - n0) / (n1 - n0)


def packet_rate(samples: Sequence[Sample], expected: int) -> float:
    """Packets a second while the middle part of them was sent."""
    first = samples[0][1]
    sent = samples[-1][1] - first
    if sent < expected:
        raise RuntimeError(f"perftest sent {sent} packets, not {expected}: that was not the wire")
    begin, end = (time_of(samples, first + part * expected) for part in (BEGIN, END))
    return (END - BEGIN) * expected / (end - begin)


def packets_sent(interface: str) -> int:
    return int(Path(f"/sys/class/net/{interface}/statistics/tx_packets").read_text())


def sample(interface: str) -> Sample:
    """Reads time and counter together: this process shares its processor with others."""
    while True:
        before = time.monotonic()
        packets = packets_sent(interface)
        after = time.monotonic()
        if after - before < SAMPLE_S / 5:
            return (before + after) / 2, packets


def from_first_look(before: int, first: Sample) -> list[Sample]:
    """Counts packets that left since `before` as if they had left at that moment.

    On a busy machine a sample comes late: the rate may thus look too high, never too low.
    """
    return [(first[0], before), first]


def sampled(client: subprocess.Popen[str], interface: str, before: int) -> list[Sample]:
    deadline = time.monotonic() + LIMIT_S
    samples = from_first_look(before, sample(interface))
    running = True
    while running and time.monotonic() < deadline:
        time.sleep(SAMPLE_S)
        running = client.poll() is None  # before the last sample, which thus has every packet
        samples.append(sample(interface))
    return samples


def rate(transport: Transport, size_bytes: int, total_bytes: int) -> float:
    """Bytes a second from end 1 of the wire to end 0."""
    interface = os.environ["SOFTROCE_INTERFACES"].split()[1]
    before = packets_sent(interface)
    with perftest_ends.running(*run_of(transport, size_bytes, total_bytes)) as ends:
        samples = sampled(ends[1], interface, before)
        for process in ends:  # a UD receiver that has lost a message waits for ever
            perftest_ends.text_of(process, 10)
    return packet_rate(samples, total_bytes // PACKET_BYTES) * PACKET_BYTES
