# SPDX-License-Identifier: Apache-2.0
"""Paths that carry less than the interfaces at their ends, with and without routers that say so.

Two hosts with two routers between them, all at an MTU of 9000; the link in the middle is narrowed.
Operations have 10 s, so what used to take 13 s or for ever fails on a machine of any speed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from launch import PROGRAMS, free_port
from namespaces import Host, ip, run_on_hosts

JUMBO, ETHERNET = 9000, 1500
ELEMENTS = 2 * 1024 * 1024
NAMES = tuple(f"rocecoll{os.getpid()}{name}" for name in ("a", "r", "s", "b"))


@dataclass(frozen=True)
class Network:
    hosts: tuple[Host, Host]

    def middle(self, mtu: int) -> list[str]:
        """The command that sets the MTU of the link between the routers, at both of its ends."""
        ends = ((NAMES[1], "right"), (NAMES[2], "left"))
        return [f"ip -n {name} link set {device} mtu {mtu}" for name, device in ends]


def run_all(commands: list[str]) -> None:
    for command in commands:
        done = ip(*command.split()[1:])
        assert done.returncode == 0, f"{command}: {done.stderr}"


@pytest.fixture
def routed() -> Iterator[Network]:
    made = ip("netns", "add", NAMES[0])
    if made.returncode != 0:
        pytest.skip(f"no network namespaces here: {made.stderr.strip()}")
    try:
        a, r, s, b = NAMES
        commands = [f"ip netns add {name}" for name in (r, s, b)]
        # Link i has addresses 10.78.i.1 at its left end and 10.78.i.2 at its right one.
        for i, (left, right) in enumerate(((a, r), (r, s), (s, b))):
            commands += [
                f"ip link add right netns {left} type veth peer left netns {right}",
                f"ip -n {left} addr add 10.78.{i}.1/24 dev right",
                f"ip -n {right} addr add 10.78.{i}.2/24 dev left",
            ]
            for name, device in ((left, "right"), (right, "left")):
                commands += [f"ip -n {name} link set {device} mtu {JUMBO} up"]
        for name in NAMES:
            commands += [f"ip -n {name} link set lo up"]
        commands += [
            f"ip -n {a} route add 10.78.0.0/16 via 10.78.0.2",
            f"ip -n {r} route add 10.78.2.0/24 via 10.78.1.2",
            f"ip -n {s} route add 10.78.0.0/24 via 10.78.1.1",
            f"ip -n {b} route add 10.78.0.0/16 via 10.78.2.1",
        ]
        run_all(commands)
        for name in (r, s):
            forward = ["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]
            assert ip("netns", "exec", name, *forward).returncode == 0
        yield Network((Host(a, "right", "10.78.0.1", ""), Host(b, "left", "10.78.2.2", "")))
    finally:
        for name in NAMES:
            ip("netns", "del", name)


def hide_reports() -> None:
    """Nothing that the routers themselves report gets out."""
    run_all([f"ip -n {name} rule add iif lo blackhole pref 5" for name in NAMES[1:3]])


def run_narrow(routed: Network, *commands: str) -> None:
    """One rank on each host, of which the second gives the commands."""
    program = [
        str(PROGRAMS / "narrow.py"),
        f"tcp://{routed.hosts[0].ipv4}:{free_port()}",
        f"{ELEMENTS}",
    ]
    results = run_on_hosts(routed.hosts, 1, [[*program, *commands]] * 2)
    for rank, result in enumerate(results):
        assert result.returncode == 0, f"rank {rank}:\n{result.stdout}"


@pytest.mark.parametrize("reported", [True, False], ids=["reported", "silent"])
def test_a_narrow_hop_is_found_by_the_first_operation(routed: Network, reported: bool) -> None:
    if not reported:
        hide_reports()
    run_all(routed.middle(ETHERNET))
    run_narrow(routed)


@pytest.mark.parametrize("reported", [True, False], ids=["reported", "silent"])
def test_a_path_that_shrinks_while_in_use_goes_on(routed: Network, reported: bool) -> None:
    if not reported:
        hide_reports()
    run_narrow(routed, *routed.middle(ETHERNET), *routed.middle(JUMBO))


@pytest.mark.parametrize("elements", [4096, ELEMENTS])
def test_a_loopback_interface_that_shrinks_and_grows_goes_on(
    routed: Network, elements: int
) -> None:
    host = routed.hosts[0]
    program = [str(PROGRAMS / "narrow.py"), f"tcp://127.0.0.1:{free_port()}", f"{elements}"]
    commands = [f"ip link set lo mtu {mtu}" for mtu in (ETHERNET, 65536)]
    results = run_on_hosts((host,), 2, [[*program, *commands]], ROCECOLL_SHM="0")
    for rank, result in enumerate(results):
        assert result.returncode == 0, f"rank {rank}:\n{result.stdout}"


def fragments_made(host: Host) -> int:
    shown = ip("netns", "exec", host.namespace, "cat", "/proc/net/snmp").stdout.splitlines()
    names, counts = (line.split() for line in shown if line.startswith("Ip:"))
    return int(counts[names.index("FragCreates")])


# From one packet to several times what a frame takes on a loopback interface of the usual MTU.
@pytest.mark.parametrize("elements", [256, 4096, 16384, 32768, 65536])
def test_a_small_loopback_interface_cuts_nothing(routed: Network, elements: int) -> None:
    host = routed.hosts[0]
    run_all([f"ip -n {host.namespace} link set lo mtu {ETHERNET}"])
    program = [str(PROGRAMS / "narrow.py"), f"tcp://127.0.0.1:{free_port()}", f"{elements}"]
    results = run_on_hosts((host,), 2, [program], ROCECOLL_SHM="0")
    for rank, result in enumerate(results):
        assert result.returncode == 0, f"rank {rank}:\n{result.stdout}"
    assert fragments_made(host) == 0
