# SPDX-License-Identifier: Apache-2.0
"""Two hosts for tests: network namespaces joined by a veth pair, Ethernet's MTU, no loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from launch import ROOT, environment, run_programs
from program_server import enter_namespace

sys.path.append(str(ROOT / "scripts"))

from benchmarks.links import wait_until_running


@dataclass(frozen=True)
class Host:
    namespace: str
    interface: str
    ipv4: str
    ipv6: str


HOSTS = tuple(
    Host(f"rocecoll{os.getpid()}{side}", f"veth-{side}", f"10.77.0.{index}", f"fd00:77::{index}")
    for index, side in ((1, "a"), (2, "b"))
)


def ip(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)


def joined_hosts() -> Iterator[tuple[Host, ...]]:
    """The two hosts, up and joined; they go away with the test."""
    made = ip("netns", "add", HOSTS[0].namespace)
    if made.returncode != 0:
        pytest.skip(f"no network namespaces here: {made.stderr.strip()}")
    try:
        ends = [["netns", host.namespace, "type", "veth"] for host in HOSTS]
        commands = [
            ["netns", "add", HOSTS[1].namespace],
            ["link", "add", HOSTS[0].interface, *ends[0], "peer", HOSTS[1].interface, *ends[1][:2]],
        ]
        for host in HOSTS:
            inside, device = ["-n", host.namespace], ["dev", host.interface]
            commands += [
                [*inside, "addr", "add", f"{host.ipv4}/24", *device],
                [*inside, "addr", "add", f"{host.ipv6}/64", *device, "nodad"],
                [*inside, "link", "set", "lo", "up"],
                [*inside, "link", "set", host.interface, "up"],
            ]
        for command in commands:
            done = ip(*command)
            assert done.returncode == 0, f"ip {' '.join(command)}: {done.stderr}"
        for host in HOSTS:
            wait_until_running(host.namespace, host.interface)
        yield HOSTS
    finally:
        for host in HOSTS:
            ip("netns", "del", host.namespace)


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """This thread is in the namespace until the end of the block; what it opens stays there."""
    with open("/proc/self/ns/net") as home, Path("/var/run/netns", namespace).open() as there:
        enter_namespace(there.fileno(), namespace)
        try:
            yield
        finally:
            enter_namespace(home.fileno(), "where it was")


def forbid_udp(host: Host, how: str, *selector: str) -> None:
    """A rule of the routing table, before that of the host's own addresses."""
    inside = ["-n", host.namespace, "rule"]
    for command in (
        [*inside, "add", "prio", "20", "lookup", "local"],
        [*inside, "del", "prio", "0"],
        [*inside, "add", "prio", "10", *selector, "ipproto", "udp", how],
    ):
        done = ip(*command)
        if done.returncode != 0:
            pytest.skip(f"no such rules here: {done.stderr.strip()}")


def run_on_hosts(
    hosts: tuple[Host, ...], ranks_per_host: int, arguments: list[list[str]], **extra: str
) -> list[subprocess.CompletedProcess[str]]:
    """Rank r runs on host r // ranks_per_host, with the arguments of that host."""
    commands, environments = [], []
    size = ranks_per_host * len(hosts)
    for rank in range(size):
        host = rank // ranks_per_host
        program = ["ip", "netns", "exec", hosts[host].namespace, sys.executable]
        commands.append([*program, *arguments[host]])
        place = {
            "RANK": str(rank),
            "WORLD_SIZE": str(size),
            "LOCAL_RANK": str(rank % ranks_per_host),
            "LOCAL_WORLD_SIZE": str(ranks_per_host),
        }
        environments.append(environment(**place, **extra))
    return run_programs(commands, environments)
