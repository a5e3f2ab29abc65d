# SPDX-License-Identifier: Apache-2.0
"""Network namespaces and the devices in them: made, joined, waited for, and removed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from benchmarks.commands import CommandError, run
from benchmarks.network_spec import NetworkError
from rocecoll.bench.local_ranks import signals_later

OFFLOADS = ("gro", "gso", "tso", "tx-udp-segmentation")
RUNNING_LIMIT_S = 60


def in_namespace(namespace: str, *command: str) -> list[str]:
    return ["ip", "netns", "exec", namespace, *command]


def remove(namespace: str) -> None:
    """Only reports a failure: an earlier error may say why it failed."""
    try:
        run("ip", "netns", "del", namespace)
    except CommandError as error:
        print(f"left behind: {error}", file=sys.stderr)


@contextmanager
def namespaces(names: Iterable[str]) -> Iterator[None]:
    """The namespaces exist until the end of the block. One that existed before is an error, and stays."""
    made: list[str] = []
    try:
        for name in names:
            with signals_later():
                run("ip", "netns", "add", name)
                made.append(name)
        yield
    finally:
        with signals_later():  # a second signal would leave the rest behind
            for name in made:
                remove(name)


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
    """Waits until the kernel reports the link as up, up to a second later; programs use it only then."""
    deadline = time.monotonic() + RUNNING_LIMIT_S
    while "state UP" not in (shown := run("ip", "-n", namespace, "link", "show", device)):
        if time.monotonic() > deadline:
            raise NetworkError(f"does not come up: {shown}")
        time.sleep(0.02)
