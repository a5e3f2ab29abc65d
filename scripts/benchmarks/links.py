# SPDX-License-Identifier: Apache-2.0
"""Network namespaces and the devices in them: made, joined, and waited for."""

from __future__ import annotations

import time

from benchmarks.commands import run
from benchmarks.network_spec import NetworkError

OFFLOADS = ("gro", "gso", "tso", "tx-udp-segmentation")
RUNNING_LIMIT_S = 60


def in_namespace(namespace: str, *command: str) -> list[str]:
    return ["ip", "netns", "exec", namespace, *command]


def join(one: tuple[str, str], other: tuple[str, str], mtu: int) -> None:
    """A cable between (namespace, device) and (namespace, device)."""
    ends = ["netns", one[0], "type", "veth", "peer", other[1], "netns", other[0]]
    run("ip", "link", "add", one[1], *ends)
    for namespace, device in (one, other):
        run("ip", "-n", namespace, "link", "set", device, "mtu", str(mtu), "up")


def send_single_packets(namespace: str, device: str) -> None:
    switches = [word for name in OFFLOADS for word in (name, "off")]
    run(*in_namespace(namespace, "ethtool", "-K", device, *switches))


def wait_until_running(namespace: str, device: str) -> None:
    """The kernel says so up to a second after the link was set up, and only then programs take it."""
    deadline = time.monotonic() + RUNNING_LIMIT_S
    while "state UP" not in (shown := run("ip", "-n", namespace, "link", "show", device)):
        if time.monotonic() > deadline:
            raise NetworkError(f"does not come up: {shown}")
        time.sleep(0.02)
