# SPDX-License-Identifier: Apache-2.0
"""Ranks on two hosts: network namespaces joined by a veth pair, Ethernet's MTU, no loopback."""

from __future__ import annotations

import re

import pytest
import torch
import torch.distributed as dist
from launch import PROGRAMS, free_port
from namespaces import Host, forbid_udp, run_on_hosts

RANKS_PER_HOST = 2


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_two_hosts_meet_on_the_route_between_them(hosts: tuple[Host, ...], family: str) -> None:
    store = hosts[0].ipv4 if family == "ipv4" else f"[{hosts[0].ipv6}]"
    classic = [str(PROGRAMS / "classic.py"), "all"]
    classic += ["--init-method", f"tcp://{store}:{free_port()}"]
    results = run_on_hosts(hosts, RANKS_PER_HOST, [classic, classic], ROCECOLL_SOCKET_FAMILY=family)
    for rank, result in enumerate(results):
        assert result.returncode == 0, f"rank {rank}:\n{result.stdout}"
        assert f"all_reduce_in_group ok on {rank} of 4" in result.stdout


def test_a_loopback_address_for_another_host_is_refused_at_once(hosts: tuple[Host, ...]) -> None:
    classic = [str(PROGRAMS / "classic.py"), "all"]
    classic += ["--init-method", f"tcp://{hosts[0].ipv4}:{free_port()}"]
    results = run_on_hosts(hosts, 1, [classic, classic], ROCECOLL_SOCKET_IFNAME="lo")
    for result in results:
        assert result.returncode != 0
        assert "loopback address" in result.stdout
        assert "ROCECOLL_SOCKET_IFNAME" in result.stdout


def test_a_host_that_falls_off_the_network_is_named_on_both_sides(hosts: tuple[Host, ...]) -> None:
    store = f"tcp://{hosts[0].ipv4}:{free_port()}"
    arguments = [[str(PROGRAMS / "unplug.py"), store, host.interface] for host in hosts]
    results = run_on_hosts(hosts, 1, arguments, ROCECOLL_PEER_TIMEOUT="5")
    for rank, result in enumerate(results):
        other = 1 - rank
        assert result.returncode == 0, f"rank {rank}:\n{result.stdout}"
        assert f"rank {other} ({hosts[other].ipv4}:" in result.stdout


def test_a_link_that_flaps_is_no_death(hosts: tuple[Host, ...]) -> None:
    """Meanwhile ARP fails and there is no route: every packet comes back with an error."""
    store = f"tcp://{hosts[0].ipv4}:{free_port()}"
    arguments = [[str(PROGRAMS / "unplug.py"), store, host.interface, "6"] for host in hosts]
    results = run_on_hosts(hosts, 1, arguments, ROCECOLL_PEER_TIMEOUT="20")
    for rank, result in enumerate(results):
        assert result.returncode == 0, f"rank {rank}:\n{result.stdout}"
        assert "all well again" in result.stdout


@pytest.mark.parametrize("api", ["torch", "core"])
def test_the_end_of_a_process_while_its_link_is_down_loses_nothing(
    hosts: tuple[Host, ...], api: str
) -> None:
    """What the last rank's engine had accepted arrives once the link is back, and then it is gone."""
    program = [str(PROGRAMS / "leaves_early.py"), api, f"tcp://{hosts[0].ipv4}:{free_port()}"]
    arguments = [[*program, host.interface, "3"] for host in hosts]
    results = run_on_hosts(hosts, 1, arguments)
    for rank, result in enumerate(results):
        assert result.returncode == 0, f"rank {rank}:\n{result.stdout}"
        assert "the last broadcast is complete" in result.stdout


def first_contact(hosts: tuple[Host, ...]) -> list[str]:
    """What the ranks print."""
    program = [str(PROGRAMS / "first_contact.py"), f"tcp://{hosts[0].ipv4}:{free_port()}"]
    results = run_on_hosts(hosts, 1, [program, program], ROCECOLL_PEER_TIMEOUT="8")
    for rank, result in enumerate(results):
        assert result.returncode == 0, f"rank {rank}:\n{result.stdout}"
    return [result.stdout for result in results]


def lines(output: str, start: str) -> str:
    return "\n".join(line for line in output.splitlines() if line.startswith(start))


def test_a_firewall_that_drops_udp_is_told(hosts: tuple[Host, ...]) -> None:
    """Nothing comes in at the second host: a warning, then the error, with what to look at."""
    forbid_udp(hosts[1], "blackhole", "iif", hosts[1].interface)
    outputs = first_contact(hosts)
    for rank, output in enumerate(outputs):
        other = hosts[1 - rank]
        assert f"rank {1 - rank} ({other.ipv4}:" in lines(output, "raised: "), output
    # The second host hears nothing at all. The first one hears from it, and so learns the cause.
    for start in ("logged: ", "raised: "):
        for part in (
            "its address is known, but no UDP packet came back",
            f"({hosts[1].ipv4}:",
            f" to {hosts[0].ipv4}:",
            "firewall",
            "ROCECOLL_PORT_RANGE",
            "ROCECOLL_SOCKET_IFNAME",
            "MTU",
        ):
            assert part in lines(outputs[1], start), outputs[1]


def test_a_missing_route_is_told(hosts: tuple[Host, ...]) -> None:
    forbid_udp(hosts[0], "unreachable", "iif", "lo")
    output = first_contact(hosts)[0]  # of the host without a route, which hears from the other one
    assert "no route to its host (ENETUNREACH)" in lines(output, "logged: "), output


ELEMENTS_ASKED_FOR = 8
PATIENCE_S = 120.0


def disagree_on_the_first_host() -> None:
    """Ranks 0 and 2 share a host and disagree on a message; the other host's only wait for them."""
    rank = dist.get_rank()
    dist.barrier()  # all links are open, also those over loopback
    if rank == 0:
        dist.send(torch.ones(ELEMENTS_ASKED_FOR // 2), 2)
        dist.barrier()
    elif rank == 2:
        dist.recv(torch.ones(ELEMENTS_ASKED_FOR), 0)
    else:
        dist.recv(torch.ones(1), 0)


def test_ranks_are_named_by_addresses_that_every_host_knows(
    own_pool, hosts: tuple[Host, ...]
) -> None:
    """Also the reporter itself, and those that it reaches over loopback."""
    networks = ",".join(host.namespace for host in hosts)
    details = {"TEST_NETWORKS": networks, "ROCECOLL_SOCKET_IFNAME": "veth"}
    with own_pool(4, timeout_s=PATIENCE_S, **details) as pool:
        outcomes = pool.attempt(disagree_on_the_first_host)
    for rank, outcome in enumerate(outcomes):
        assert outcome.error, rank
        named = re.findall(r"rank (\d) \(([^)]*):\d+\)", outcome.error)
        assert named, outcome.error
        for peer, address in named:
            assert address == hosts[int(peer) % 2].ipv4, f"rank {rank}: {outcome.error}"
        if rank % 2 == 1:
            assert re.search(r"rank [02] \(\S+\) reported: mismatch", outcome.error), outcome.error
