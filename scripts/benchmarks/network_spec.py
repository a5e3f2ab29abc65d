# SPDX-License-Identifier: Apache-2.0
"""The names of networks between two hosts, and what they mean.

veth[:NAME=VALUE,...], the names being
    mtu=BYTES       of the devices; 1500 without it
    offload=off     packets leave singly; otherwise the kernel hands on up to 64 KiB at once
    loss=PERCENT    each host loses so much of what arrives, at random
    rate=RATE       a token bucket each way, which lets RATE pass in the words of tc (1gbit)
    burst=SIZE      what it lets pass at once after a pause, in the words of tc; without it no more
                    than timers need
    limit=SIZE      what waits there at most, in the words of tc; without it 64kb, or 128kb where the
                    bucket takes 64 KiB whole
    where=router    the buckets are at the ports of a switch between the hosts, as without it;
    where=host      or at the hosts' own devices, whose programs are told of a full queue
    mark=on         a bucket marks (ECN) what finds more than half of its limit in use
    delay=TIME      every packet takes so much longer each way, in the words of tc (5ms, 500us)
    jitter=TIME     and up to so much more, each packet by itself: they overtake each other
    reorder=PERCENT so many packets skip the delay
    beside=N*tcp:CONTROL   N TCP flows (1 without N*) from the first host to the second all the time,
                    under that congestion control of the kernel's (cubic)

Packets are cut before any loss, so that each is lost by itself: on a lossy cable by the sender, so
`loss` is also `offload=off`; at a bucket what is more than its burst by the bucket. What is less it takes
and drops whole, and counts it as one packet when it drops it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from rocecoll.bench.results import HOST, HOST_UDP

ETHERNET_BYTES = 14  # what a packet has in front of the MTU
MESSAGE_BYTES = 64 << 10  # what the kernel hands on at once, at most
# A shaper wakes up when a timer fires. So much may go out at once, or it would be slower than asked.
BURST_S, MIN_BURST_BYTES = 125e-6, 4096
UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
SIZES = {"b": 1, "kb": 1 << 10, "mb": 1 << 20}  # tc counts so
TIMES_US = {"us": 1, "ms": 1000, "s": 1_000_000}
MOST_DELAY_US = 5_000_000
MOST_FLOWS = 64
SIZE, TIME, PERCENT = r"[1-9]\d*[km]?b", r"[1-9]\d*(us|ms|s)", r"\d{1,2}(\.\d+)?"
# Of each name: what it takes, in words and as a pattern.
VALUES = {
    "mtu": ("BYTES", r"[1-9]\d{2,4}"),
    "offload": ("off", "off"),
    "loss": ("PERCENT", PERCENT),
    "rate": ("RATE", r"[1-9]\d*[kmg]bit"),
    "burst": ("SIZE", SIZE),
    "limit": ("SIZE", SIZE),
    "where": ("host|router", "host|router"),
    "mark": ("on", "on"),
    "delay": ("TIME", TIME),
    "jitter": ("TIME", TIME),
    "reorder": ("PERCENT", PERCENT),
    "beside": ("[N*]tcp:CONTROL", r"([1-9]\d?\*)?tcp:\w+"),
}
# What is of no use without another name.
NEEDS = dict.fromkeys(("burst", "limit", "where", "mark"), "rate")
NEEDS |= dict.fromkeys(("jitter", "reorder"), "delay")
WHY = {"rate": "only a port with a rate has a bucket", "delay": "nothing is delayed"}
CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


class NetworkError(Exception):
    """There is no such network, or it does not work; the text says why."""


def is_network(name: str) -> bool:
    """Or all ranks on this machine, through its memory or over UDP."""
    return name not in (HOST, HOST_UDP)


def bytes_of(size: str) -> int:
    number = size.rstrip("kmb")
    return int(number) * SIZES[size[len(number) :]]


def microseconds_of(time: str) -> int:
    number = time.rstrip("ums")
    return int(number) * TIMES_US[time[len(number) :]]


def flows_of(beside: str) -> tuple[int, str]:
    """How many, and under which congestion control."""
    number, _, control = beside.rpartition("tcp:")
    return int(number.rstrip("*") or bool(control)), control


@dataclass(frozen=True)
class Spec:
    """What was asked for. Without a rate nothing is shaped."""

    name: str
    mtu: int = 1500
    offload: bool = True
    loss_percent: float | None = None
    rate: str = ""
    burst: str = ""
    limit: str = ""
    at_hosts: bool = False
    marks: bool = False
    delay_us: int = 0
    jitter_us: int = 0
    reorder_percent: float = 0.0
    flows: int = 0
    flow_control: str = ""

    @property
    def is_plain(self) -> bool:
        """All packets arrive, in order, but for what a socket has no room for."""
        return not (self.loss_percent or self.rate or self.jitter_us or self.reorder_percent)

    @property
    def helpers(self) -> int:
        """Programs that want a processor meanwhile."""
        return bool(self.delay_us) + 2 * bool(self.flows)

    @property
    def has_switch(self) -> bool:
        return bool(self.delay_us or (self.rate and not self.at_hosts))

    @property
    def frame_bytes(self) -> int:
        return self.mtu + ETHERNET_BYTES

    @property
    def bytes_per_s(self) -> int:
        return int(int(self.rate[:-4]) * UNITS[self.rate[-4:]] / 8)

    @property
    def burst_bytes(self) -> int:
        if self.burst:
            return bytes_of(self.burst)
        return max(MIN_BURST_BYTES, self.frame_bytes, int(self.bytes_per_s * BURST_S))

    @property
    def drop_bytes(self) -> int:
        """What a bucket drops at once and counts as one packet, at most."""
        single = not self.offload or (
            self.delay_us and not self.at_hosts
        )  # a cable carries packets
        if single or not self.rate:
            return self.frame_bytes
        return max(self.frame_bytes, min(self.burst_bytes, MESSAGE_BYTES))

    @property
    def drops_messages(self) -> bool:
        """Whole ones, of the largest size: nobody knows how many packets were in them."""
        return self.drop_bytes == MESSAGE_BYTES

    @property
    def least_limit_bytes(self) -> int:
        """Below it a bucket drops what it never has room for: a message, with the headers of its packets."""
        return 2 * MESSAGE_BYTES if self.drops_messages else self.frame_bytes

    @property
    def limit_bytes(self) -> int:
        return bytes_of(self.limit) if self.limit else max(MESSAGE_BYTES, self.least_limit_bytes)


def settings(name: str) -> dict[str, str]:
    kind, _, text = name.partition(":")
    pairs = [word.partition("=") for word in text.split(",")] if text else []
    found = {key: value for key, _, value in pairs}
    wrong = [
        f"{key}{sign}{value}"
        for key, sign, value in pairs
        if key not in VALUES or not re.fullmatch(VALUES[key][1], value)
    ]
    if kind != "veth" or wrong or len(found) < len(pairs) or name.endswith(":"):
        known = ", ".join(f"{key}={value}" for key, (value, _) in VALUES.items())
        raise NetworkError(
            f"{name!r} is no network: veth, or veth: and some of {known}, each once, separated by "
            "commas" + (f"; not {', '.join(wrong)}" if wrong else "")
        )
    return found


def problem(found: dict[str, str], spec: Spec) -> str:
    """What is wrong with values that are right by themselves, if anything is."""
    for key in found:
        if (needed := NEEDS.get(key)) and needed not in found:
            return f"{key} needs {needed}: {WHY[needed]} without it"
    for key in ("burst", "limit"):
        if key in found and bytes_of(found[key]) < spec.frame_bytes:
            return f"{key}={found[key]} has no room for a packet, of {spec.frame_bytes} bytes"
    if spec.rate and spec.limit_bytes < spec.least_limit_bytes:
        least = f"limit={spec.least_limit_bytes >> 10}kb"
        return (
            f"limit={spec.limit} has no room for messages of 64 KiB, which a burst of so much "
            f"takes whole: at least {least}, or offload=off"
        )
    if spec.delay_us + spec.jitter_us > MOST_DELAY_US:
        return f"delay and jitter are more than {MOST_DELAY_US // 1_000_000} s"
    if spec.flows > MOST_FLOWS:
        return f"{spec.flows} flows are more than {MOST_FLOWS}"
    controls = CONTROLS.read_text().split() if spec.flows else []
    if spec.flows and spec.flow_control not in controls:
        return f"this kernel has no congestion control {spec.flow_control!r}: {', '.join(controls)}"
    return ""


def parse(name: str) -> Spec:
    found = settings(name)
    loss = float(found["loss"]) if "loss" in found else None
    flows, control = flows_of(found.get("beside", ""))
    spec = Spec(
        name,
        mtu=int(found.get("mtu", Spec.mtu)),
        offload="offload" not in found and loss is None,
        loss_percent=loss,
        rate=found.get("rate", ""),
        burst=found.get("burst", ""),
        limit=found.get("limit", Spec.limit),
        at_hosts=found.get("where") == "host",
        marks="mark" in found,
        delay_us=microseconds_of(found["delay"]) if "delay" in found else 0,
        jitter_us=microseconds_of(found["jitter"]) if "jitter" in found else 0,
        reorder_percent=float(found.get("reorder", "0")),
        flows=flows,
        flow_control=control,
    )
    if wrong := problem(found, spec):
        raise NetworkError(f"{name!r}: {wrong}")
    return spec
