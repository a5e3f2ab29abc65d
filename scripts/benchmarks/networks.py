# SPDX-License-Identifier: Apache-2.0
"""Two hosts and what lies between them: network namespaces, joined by veth pairs.

network_spec.py has the names. Without a switch the hosts' devices are one pair. A switch is a namespace with
a port towards each host; delayed, it is two bridges with the cable of delay_line.py between them. A second
pair, without loss, carries what the ranks agree on.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import bulk_flow, delay_line
from benchmarks.commands import run, running
from benchmarks.links import (
    in_namespace,
    join,
    namespaces,
    send_single_packets,
    wait_until_running,
)
from benchmarks.network_spec import Spec

PREFIX = "rocecoll-bench"  # of the namespaces' names
CONTROL_MTU = 1500
DATA, CONTROL = "data", "control"  # the devices of each host
CONTROL_ADDRESSES = ("10.79.1.1", "10.79.1.2")
DATA_ADDRESSES = ("10.79.0.1", "10.79.0.2")
DATA_NETWORK = "10.79.0.0/24"
PORTS, BRIDGES = ("port0", "port1"), ("bridge0", "bridge1")
MARKER = Path(__file__).with_name("marker.py")


@dataclass(frozen=True)
class Dropper:
    """A queueing discipline that drops packets and counts them."""

    namespace: str
    device: str
    kind: str

    def packets(self) -> tuple[int, int]:
        """How many packets have come so far, and how many were dropped; of messages that it drops whole
        each counts as one."""
        words = ["tc", "-n", self.namespace, "-s", "-j", "qdisc", "show", "dev", self.device]
        shown = json.loads(run(*words))
        [one] = [entry for entry in shown if entry["kind"] == self.kind]
        # clsact counts a packet before it drops it, a shaper one that it has sent.
        passed = one["packets"] - (one["drops"] if self.kind == "clsact" else 0)
        return passed + one["drops"], one["drops"]


OnTheWay = Dropper | delay_line.Overflow
Both = tuple[tuple[OnTheWay, ...], tuple[OnTheWay, ...]]  # on the way to each host


def read_dropper(written: dict[str, Any]) -> OnTheWay:
    """Reads what asdict() has written."""
    return Dropper(**written) if "kind" in written else delay_line.Overflow(**written)


@dataclass(frozen=True)
class Flows:
    """TCP from the first host to the second, beside the traffic that is measured."""

    counter: str

    def received(self) -> int:
        """Bytes so far."""
        return int(bulk_flow.counter(Path(self.counter))[0])


@dataclass(frozen=True)
class Network:
    namespaces: tuple[str, str]
    droppers: Both
    flows: Flows | None = None


def drop_program(percent: float) -> str:
    """Classic BPF in the words of tc: a random 32-bit number below the threshold is a drop."""
    threshold = round(percent / 100 * 2**32)
    # ld random; jge threshold, skip one; return TC_ACT_SHOT; return TC_ACT_UNSPEC, which goes on.
    return f"4,32 0 0 4294963256,53 1 0 {threshold},6 0 0 2,6 0 0 4294967295"


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
    shaper = ["tbf", "rate", spec.rate]
    shaper += ["limit", str(spec.limit_bytes), "burst", str(spec.burst_bytes)]
    run("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", *shaper)
    if spec.marks:
        sizes = (spec.bytes_per_s, spec.burst_bytes, spec.limit_bytes, spec.limit_bytes // 2)
        run(*in_namespace(namespace, sys.executable, str(MARKER), device, *map(str, sizes)))
    return Dropper(namespace, device, "tbf")


def lay_switch(hosts: tuple[str, str], switch: str, spec: Spec) -> None:
    # It may be handed 64 KiB at once. If sent singly, packets would arrive no faster than a virtual machine's
    # timer lets them go, because the sender's processor does the work of the switch, and none would drop.
    bridges = BRIDGES if spec.delay_us else BRIDGES[:1]
    for bridge in bridges:
        run("ip", "-n", switch, "link", "add", bridge, "type", "bridge")
        run("ip", "-n", switch, "link", "set", bridge, "mtu", str(spec.mtu), "up")
    for index, (host, port) in enumerate(zip(hosts, PORTS, strict=True)):
        join((host, DATA), (switch, port), spec.mtu)
        run("ip", "-n", switch, "link", "set", port, "master", bridges[index % len(bridges)])
        send_single_packets(switch, port)


def lay_data_path(
    hosts: tuple[str, str], switch: str, spec: Spec
) -> tuple[tuple[Dropper, ...], tuple[Dropper, ...]]:
    """Joins the hosts without the delay."""
    found: tuple[list[Dropper], list[Dropper]] = ([], [])
    if spec.has_switch:
        lay_switch(hosts, switch, spec)
    else:
        join((hosts[0], DATA), (hosts[1], DATA), spec.mtu)
    for mine, port, other in zip(found, PORTS, reversed(hosts), strict=True):
        if spec.rate:
            where = (other, DATA) if spec.at_hosts else (switch, port)
            mine.append(shape(*where, spec))
    for mine, host in zip(found, hosts, strict=True):
        if not spec.offload:
            send_single_packets(host, DATA)
        if spec.loss_percent is not None:
            mine.append(lose(host, spec.loss_percent))
    return tuple(found[0]), tuple(found[1])


@contextmanager
def flowing(network: Network, spec: Spec, directory: Path) -> Iterator[Network]:
    """Runs the TCP flows until the end of the block."""
    counter = directory / "flows"
    first, second = (
        in_namespace(host, sys.executable, bulk_flow.__file__) for host in network.namespaces
    )
    address, flows = DATA_ADDRESSES[1], str(spec.flows)
    with (
        running([*second, "receive", address, flows, str(counter)]) as port,
        running([*first, "send", address, port, flows, spec.flow_control]),
    ):
        yield replace(network, flows=Flows(str(counter)))


def set_congestion_control(name: str, *where: str) -> None:
    """Of TCP connections that are made from now on, by this host or by another (`where` is for ip): a namespace
    may not have a default of its own."""
    run("ip", *where, "route", "change", DATA_NETWORK, "dev", DATA, "congctl", name)


@contextmanager
def made(spec: Spec, tcp: str | None = None) -> Iterator[Network]:
    """The network, until the end of the block; `tcp` is the congestion control of its hosts."""
    if spec.delay_us:
        delay_line.require()
    first, second, switch = (f"{PREFIX}-{os.getpid()}-{name}" for name in ("a", "b", "switch"))
    hosts = (first, second)
    with namespaces((*hosts, switch) if spec.has_switch else hosts), ExitStack() as stack:
        for host in hosts:
            run("ip", "-n", host, "link", "set", "lo", "up")
        join((first, CONTROL), (second, CONTROL), CONTROL_MTU)
        on_the_way: Both = lay_data_path(hosts, switch, spec)
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="rocecoll-network-"))
        if spec.delay_us:
            cable = delay_line.laid(switch, BRIDGES, spec, Path(name))
            from_first, from_second = stack.enter_context(cable)
            on_the_way = ((*on_the_way[0], from_second), (*on_the_way[1], from_first))
        for index, host in enumerate(hosts):
            for device, addresses in ((DATA, DATA_ADDRESSES), (CONTROL, CONTROL_ADDRESSES)):
                address = f"{addresses[index]}/24"
                run("ip", "-n", host, "addr", "add", address, "dev", device)
                wait_until_running(host, device)
            if tcp is not None:
                set_congestion_control(tcp, "-n", host)
        network = Network(hosts, on_the_way)
        if spec.flows:
            network = stack.enter_context(flowing(network, spec, Path(name)))
        yield network
