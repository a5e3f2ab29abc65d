# SPDX-License-Identifier: Apache-2.0
"""Two hosts and what lies between them: network namespaces, joined by a veth pair.

veth[:NAME=VALUE,...], the names being
    mtu=BYTES       of the devices; 1500 without it
    offload=off     packets leave singly; otherwise the kernel hands on up to 64 KiB at once
    loss=PERCENT    each host loses so much of what arrives, at random
    rate=RATE       a switch between them, whose ports send at RATE in the words of tc (1gbit)
    buffer=SIZE     what each of these ports holds at most, in the words of tc; 64kb without it
    mark=on         its ports mark (ECN) what finds more than half of the buffer in use

Packets are cut before any loss, so that each is lost by itself: on a lossy cable by the sender, so
`loss` is also `offload=off`; at the switch by its port. A second cable, without loss, carries what the
ranks agree on.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.commands import run
from rocecoll.bench.results import HOST, HOST_UDP

CONTROL_MTU = 1500
ETHERNET_BYTES = 14  # what a packet has in front of the MTU
DATA, CONTROL = "data", "control"  # the devices of each host
CONTROL_ADDRESSES = ("10.79.1.1", "10.79.1.2")
DATA_ADDRESSES = ("10.79.0.1", "10.79.0.2")
OFFLOADS = ("gro", "gso", "tso", "tx-udp-segmentation")
RUNNING_LIMIT_S = 60
# A shaper wakes up when a timer fires. So much may go out at once, or it would be slower than asked.
BURST_S, MIN_BURST_BYTES = 125e-6, 4096
UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
SIZES = {"b": 1, "kb": 1 << 10, "mb": 1 << 20}  # tc counts so
VALUES = {
    "mtu": r"[1-9]\d{2,4}",
    "offload": "off",
    "loss": r"\d{1,2}(\.\d+)?",
    "rate": r"[1-9]\d*[kmg]bit",
    "buffer": r"[1-9]\d*[km]?b",
    "mark": "on",
}
MARKER = Path(__file__).with_name("marker.py")


class NetworkError(Exception):
    """There is no such network, or it does not work; the text says why."""


def is_network(name: str) -> bool:
    """Or all ranks on this machine, through its memory or over UDP."""
    return name not in (HOST, HOST_UDP)


@dataclass(frozen=True)
class Spec:
    """What was asked for. Without a rate there is no switch."""

    name: str
    mtu: int = 1500
    offload: bool = True
    loss_percent: float | None = None
    rate: str = ""
    buffer: str = "64kb"
    marks: bool = False

    @property
    def loses(self) -> bool:
        """At random, or what a buffer has no room for."""
        return bool(self.loss_percent or self.rate)

    @property
    def bytes_per_s(self) -> int:
        return int(int(self.rate[:-4]) * UNITS[self.rate[-4:]] / 8)

    @property
    def burst_bytes(self) -> int:
        return max(MIN_BURST_BYTES, self.mtu + ETHERNET_BYTES, int(self.bytes_per_s * BURST_S))

    @property
    def buffer_bytes(self) -> int:
        number = self.buffer.rstrip("kmb")
        return int(number) * SIZES[self.buffer[len(number) :]]


def settings(name: str) -> dict[str, str]:
    kind, _, text = name.partition(":")
    pairs = [word.partition("=") for word in text.split(",")] if text else []
    found = {key: value for key, _, value in pairs}
    wrong = [
        f"{key}{sign}{value}"
        for key, sign, value in pairs
        if key not in VALUES or not re.fullmatch(VALUES[key], value)
    ]
    if kind != "veth" or wrong or len(found) < len(pairs) or name.endswith(":"):
        raise NetworkError(
            f"{name!r} is no network: veth, or veth: and some of mtu=BYTES, offload=off, "
            "loss=PERCENT, rate=RATE, buffer=SIZE, mark=on, separated by commas"
            + (f"; not {', '.join(wrong)}" if wrong else "")
        )
    return found


def parse(name: str) -> Spec:
    found = settings(name)
    if "rate" not in found and {"buffer", "mark"} & set(found):
        raise NetworkError(f"{name!r}: only a port with a rate has a buffer")
    loss = float(found["loss"]) if "loss" in found else None
    return Spec(
        name,
        mtu=int(found.get("mtu", Spec.mtu)),
        offload="offload" not in found and loss is None,
        loss_percent=loss,
        rate=found.get("rate", ""),
        buffer=found.get("buffer", Spec.buffer),
        marks="mark" in found,
    )


@dataclass(frozen=True)
class Dropper:
    """A queueing discipline that drops, and counts it."""

    namespace: str
    device: str
    kind: str

    def packets(self) -> tuple[int, int]:
        """All that came so far, and how many of them were dropped."""
        words = ["tc", "-n", self.namespace, "-s", "-j", "qdisc", "show", "dev", self.device]
        shown = json.loads(run(*words))
        [one] = [entry for entry in shown if entry["kind"] == self.kind]
        # clsact counts a packet before it drops it, a shaper one that it has sent.
        passed = one["packets"] - (one["drops"] if self.kind == "clsact" else 0)
        return passed + one["drops"], one["drops"]


@dataclass(frozen=True)
class Network:
    namespaces: tuple[str, str]
    droppers: tuple[tuple[Dropper, ...], tuple[Dropper, ...]]  # on the way to each of them


def in_namespace(namespace: str, *command: str) -> list[str]:
    return ["ip", "netns", "exec", namespace, *command]


def drop_program(percent: float) -> str:
    """Classic BPF in the words of tc: a random 32-bit number below the threshold is a drop."""
    threshold = round(percent / 100 * 2**32)
    # ld random; jge threshold, skip one; return TC_ACT_SHOT; return TC_ACT_UNSPEC, which goes on.
    return f"4,32 0 0 4294963256,53 1 0 {threshold},6 0 0 2,6 0 0 4294967295"


def join(one: tuple[str, str], other: tuple[str, str], mtu: int) -> None:
    """A cable between (namespace, device) and (namespace, device)."""
    ends = ["netns", one[0], "type", "veth", "peer", other[1], "netns", other[0]]
    run("ip", "link", "add", one[1], *ends)
    for namespace, device in (one, other):
        run("ip", "-n", namespace, "link", "set", device, "mtu", str(mtu), "up")


def send_single_packets(namespace: str, device: str) -> None:
    switches = [word for name in OFFLOADS for word in (name, "off")]
    run(*in_namespace(namespace, "ethtool", "-K", device, *switches))


def lose(namespace: str, percent: float) -> Dropper:
    # Also at 0 %, so that the reference pays for the program as well.
    device = ["dev", DATA]
    run("tc", "-n", namespace, "qdisc", "add", *device, "clsact")
    run(
        *("tc", "-n", namespace, "filter", "add", *device, "ingress", "protocol", "ip"),
        *("bpf", "da", "bytecode", drop_program(percent)),
    )
    return Dropper(namespace, DATA, "clsact")


def shape(namespace: str, device: str, spec: Spec) -> Dropper:
    shaper = ["tbf", "rate", spec.rate, "limit", spec.buffer, "burst", str(spec.burst_bytes)]
    run("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", *shaper)
    if spec.marks:
        sizes = (spec.bytes_per_s, spec.burst_bytes, spec.buffer_bytes, spec.buffer_bytes // 2)
        run(*in_namespace(namespace, sys.executable, str(MARKER), device, *map(str, sizes)))
    return Dropper(namespace, device, "tbf")


def lay_switch(hosts: tuple[str, str], switch: str, spec: Spec) -> Iterator[Dropper]:
    # At a port of its own a sender would be told of a full queue, which no network does. It may hand
    # the switch 64 KiB at once: singly, packets would arrive no faster than a virtual machine's timer
    # lets them go, because the sender's processor does the work of the switch, and none would drop.
    run("ip", "netns", "add", switch)
    run("ip", "-n", switch, "link", "add", "bridge", "type", "bridge")
    run("ip", "-n", switch, "link", "set", "bridge", "up")
    for host, port in zip(hosts, ("port0", "port1"), strict=True):
        join((host, DATA), (switch, port), spec.mtu)
        run("ip", "-n", switch, "link", "set", port, "master", "bridge")
        send_single_packets(switch, port)
        yield shape(switch, port, spec)


def lay_data_path(
    hosts: tuple[str, str], switch: str, spec: Spec
) -> tuple[tuple[Dropper, ...], tuple[Dropper, ...]]:
    found: tuple[list[Dropper], list[Dropper]] = ([], [])
    if spec.rate:
        for mine, dropper in zip(found, lay_switch(hosts, switch, spec), strict=True):
            mine.append(dropper)
    else:
        join((hosts[0], DATA), (hosts[1], DATA), spec.mtu)
    for mine, host in zip(found, hosts, strict=True):
        if not spec.offload:
            send_single_packets(host, DATA)
        if spec.loss_percent is not None:
            mine.append(lose(host, spec.loss_percent))
    return tuple(found[0]), tuple(found[1])


def wait_until_running(namespace: str, device: str) -> None:
    """The kernel says so up to a second after the link was set up, and only then programs take it."""
    deadline = time.monotonic() + RUNNING_LIMIT_S
    while "state UP" not in (shown := run("ip", "-n", namespace, "link", "show", device)):
        if time.monotonic() > deadline:
            raise NetworkError(f"does not come up: {shown}")
        time.sleep(0.02)


@contextmanager
def made(spec: Spec, tcp: str | None = None) -> Iterator[Network]:
    """The network, until the end of the block; `tcp` is the congestion control of its hosts."""
    hosts = (f"rocecoll{os.getpid()}a", f"rocecoll{os.getpid()}b")
    switch = f"rocecoll{os.getpid()}s"
    try:
        for host in hosts:
            run("ip", "netns", "add", host)
            run("ip", "-n", host, "link", "set", "lo", "up")
        join((hosts[0], CONTROL), (hosts[1], CONTROL), CONTROL_MTU)
        droppers = lay_data_path(hosts, switch, spec)
        for index, host in enumerate(hosts):
            for device, addresses in ((DATA, DATA_ADDRESSES), (CONTROL, CONTROL_ADDRESSES)):
                run("ip", "-n", host, "addr", "add", f"{addresses[index]}/24", "dev", device)
                wait_until_running(host, device)
            if tcp is not None:  # a namespace may not have a default of its own
                route = ["10.79.0.0/24", "dev", DATA, "src", DATA_ADDRESSES[index]]
                run("ip", "-n", host, "route", "change", *route, "congctl", tcp)
        yield Network(hosts, droppers)
    finally:
        for namespace in (*hosts, switch):
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)
