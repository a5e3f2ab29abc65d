# SPDX-License-Identifier: Apache-2.0
"""What perftest moves between the two devices of a guest, in bytes a second.

perftest's own figure needs the processor's frequency in /proc/cpuinfo, which User-Mode Linux has
not, and a calibration that fails on a busy machine; its mode of fixed duration would do without but
cannot wait for events, and two ends that poll starve each other on one processor. So its packets are
counted where they leave: RoCE packets are all of the MTU's size, as messages are multiples of it.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cases import Transport
from rocecoll.bench import machine

PACKET_BYTES = 4096  # the wire's RoCE MTU
PORT = 18515
LIMIT_S = 60.0
SAMPLE_S = 0.01
# Where the rate is taken, as parts of all packets: connection set-up and the last few are outside.
BEGIN, END = 0.1, 0.9
PROGRAMS = {
    # The receiver of writes sleeps; it is only the sender that polls.
    Transport.rc: ("ib_write_bw",),
    Transport.ud: ("ib_send_bw", "-c", "UD", "-e"),
}

Sample = tuple[float, int]  # seconds, packets sent so far


def message_bytes(transport: Transport, size_bytes: int) -> int:
    """UD has no messages larger than a packet."""
    return size_bytes if transport is Transport.rc else min(size_bytes, PACKET_BYTES)


def command(
    transport: Transport, device: str, gid_index: str, size_bytes: int, total_bytes: int
) -> list[str]:
    size = message_bytes(transport, size_bytes)
    options = ["-d", device, "-x", gid_index, "-p", str(PORT), "-F", "-N"]
    return [*PROGRAMS[transport], *options, "-s", str(size), "-n", str(total_bytes // size)]


def time_of(samples: Sequence[Sample], packets: float) -> float:
    """When so many were sent, by interpolation."""
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


def wait_for_listener() -> None:
    deadline = time.monotonic() + LIMIT_S
    listening = f":{PORT:04X} "
    while not any(
        listening in line and " 0A " in line  # local port, and the state LISTEN
        for table in ("tcp", "tcp6")
        for line in Path("/proc/net", table).read_text().splitlines()
    ):
        if time.monotonic() > deadline:
            raise RuntimeError(f"perftest does not listen within {LIMIT_S:g} s")
        time.sleep(SAMPLE_S)


def sample(interface: str) -> Sample:
    """Nothing may come between the time and the number: this process shares its processor."""
    while True:
        before = time.monotonic()
        packets = packets_sent(interface)
        after = time.monotonic()
        if after - before < SAMPLE_S / 5:
            return (before + after) / 2, packets


def sampled(client: subprocess.Popen[str], interface: str) -> list[Sample]:
    deadline = time.monotonic() + LIMIT_S
    samples = [sample(interface)]
    running = True
    while running and time.monotonic() < deadline:
        time.sleep(SAMPLE_S)
        running = client.poll() is None  # before the last sample, which thus has every packet
        samples.append(sample(interface))
    return samples


def rate(transport: Transport, size_bytes: int, total_bytes: int) -> float:
    """Bytes a second from end 1 of the wire to end 0."""
    devices = os.environ["SOFTROCE_DEVICES"].split()
    gids = os.environ["SOFTROCE_GID_INDEXES"].split()
    commands = [
        command(transport, devices[end], gids[end], size_bytes, total_bytes) for end in (0, 1)
    ]
    interface = os.environ["SOFTROCE_INTERFACES"].split()[1]
    ends: list[subprocess.Popen[str]] = []
    try:
        for end, arguments in enumerate((commands[0], [*commands[1], "127.0.0.1"])):
            if ends:
                wait_for_listener()
            ends.append(
                subprocess.Popen(
                    arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
                )
            )
            machine.stay_on_a_core(end, ends[end].pid)
        samples = sampled(ends[1], interface)
        for process in ends:
            # A UD receiver that has lost a message waits for ever.
            text = process.communicate(timeout=10)[0]
            if process.returncode != 0:
                raise RuntimeError(f"{' '.join(commands[0])} failed:\n{text}")
    finally:
        for process in ends:
            process.kill()
            process.wait()
    return packet_rate(samples, total_bytes // PACKET_BYTES) * PACKET_BYTES
