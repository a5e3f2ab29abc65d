# SPDX-License-Identifier: Apache-2.0
"""The bed from inside: its wire, what can be done to it, and what the kernel counts and holds."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

DEADLINE_S = 120.0
NIGHTLY = "TEST_NIGHTLY" in os.environ  # there is time for the full numbers


@dataclass(frozen=True)
class End:
    """One end of the wire. With two guests only one of them is in this one."""

    device: str
    interface: str
    address: str
    gid_index: int


def ends() -> list[End]:
    """Of this guest; empty outside of a bed."""
    words = {
        name: os.environ.get(f"SOFTROCE_{name}", "").split()
        for name in ("DEVICES", "INTERFACES", "ADDRESSES", "GID_INDEXES")
    }
    first = int(os.environ.get("SOFTROCE_GUEST", "0")) if len(words["DEVICES"]) == 1 else 0
    return [
        End(device, interface, words["ADDRESSES"][first + number], int(index))
        for number, (device, interface, index) in enumerate(
            zip(words["DEVICES"], words["INTERFACES"], words["GID_INDEXES"], strict=True)
        )
    ]


def run(*command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert result.returncode == 0, f"{command}: {result.stderr}"
    return result.stdout


def wait_until(condition: Callable[[], bool], what: str, limit_s: float = DEADLINE_S) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what}"
        time.sleep(0.02)


# What can be done to the wire.


@contextmanager
def netem(faults: str) -> Iterator[None]:
    """The faults at both ends, for what goes over the wire.

    Between two addresses of one kernel only RoCE does: UDP goes over the loopback interface.
    """
    interfaces = [end.interface for end in ends()]
    for interface in interfaces if faults else []:
        run("tc", "qdisc", "replace", "dev", interface, "root", "netem", *faults.split())
    try:
        yield
    finally:
        for interface in interfaces if faults else []:
            run("tc", "qdisc", "delete", "dev", interface, "root")


def is_active(device: str) -> bool:
    return "ACTIVE" in Path(f"/sys/class/infiniband/{device}/ports/1/state").read_text()


def wait_for_gid(device: str, address: str) -> int:
    """The index of the IPv4 address's GID, which is not there at once after either was added."""
    gid, table = IPv6Address(f"::ffff:{address}").exploded, Path(f"/sys/class/infiniband/{device}")
    found: list[int] = []

    def is_there() -> bool:
        for entry in (table / "ports/1/gids").iterdir():
            try:
                found.extend([int(entry.name)] if entry.read_text().strip() == gid else [])
            except OSError:
                continue  # an entry that is empty
        return bool(found)

    wait_until(is_there, f"{device} has the GID of {address}")
    return found[0]


@contextmanager
def link_down(end: End, wire: Sequence[End] = ()) -> Iterator[None]:
    """The interface is down, and with it the ports of both devices, as with a cable pulled.

    `wire` has both ends, if they are not the bed's.
    """
    routes = [
        (version, line.split())
        for version in ("-4", "-6")
        for line in run("ip", version, "route", "show", "dev", end.interface).splitlines()
        if "proto kernel" not in line
    ]
    addresses = run("ip", "-6", "address", "show", "dev", end.interface, "scope", "global")
    run("ip", "link", "set", end.interface, "down")
    try:
        yield
    finally:
        run("ip", "link", "set", end.interface, "up")
        for line in addresses.splitlines():
            if "inet6" in line:
                address = line.split()[1]
                run("ip", "-6", "address", "replace", address, "dev", end.interface, "nodad")
        for version, words in routes:
            run("ip", version, "route", "replace", *words, "dev", end.interface)
        for other in wire or ends():
            wait_until(lambda device=other.device: is_active(device), "the port is up again")


# What the kernel counts and holds.


def hw_counters(device: str) -> dict[str, int]:
    directory = Path(f"/sys/class/infiniband/{device}/ports/1/hw_counters")
    return {path.name: int(path.read_text()) for path in directory.iterdir()}


def sent_bytes(interface: str) -> int:
    return int(Path(f"/sys/class/net/{interface}/statistics/tx_bytes").read_text())


def resources(kind: str, device: str) -> list[dict[str, Any]]:
    """Of programs, not of the kernel: `kind` is qp, mr, cq, pd, srq or ctx.

    An entry's pid is the thread that made it, so it is of no use to tell programs apart.
    """
    found: list[dict[str, Any]] = json.loads(run("rdma", "-j", "resource", "show", kind))
    return [entry for entry in found if entry["ifname"] == device and "pid" in entry]


def resource_counts() -> dict[str, dict[str, int]]:
    """By device; the kernel's own are among them."""
    found = json.loads(run("rdma", "-j", "resource", "show"))
    return {
        entry["ifname"]: {name: n for name, n in entry.items() if not name.startswith("if")}
        for entry in found
    }
