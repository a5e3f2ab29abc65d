# SPDX-License-Identifier: Apache-2.0
"""rocecoll doctor --store: hosts that try UDP with each other, and which one is blamed."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import pytest
from launch import environment, free_port, run_programs
from namespaces import Host, forbid_udp, ip, run_on_hosts
from torch.distributed import HashStore, TCPStore
from typer.testing import CliRunner
from waiting import wait_until

from rocecoll.cli.app import app
from rocecoll.diagnosis.finding import Level
from rocecoll.diagnosis.pairs.udp import PairsError, try_pairs, turns
from rocecoll.diagnosis.pairs.udp_verdicts import Member, Way, judge

MEMBERS = [Member(rank, f"node{rank}", f"id{rank}", f"10.0.0.{rank}", 5000) for rank in range(4)]
OPEN = Way(0, 1, 20, 20, 20, "", 50.0, 1500, 1500, 900.0)


def ways(ranks: int, *closed: tuple[int, int], refusal: str = "") -> list[Way]:
    """The ways between all ranks, of which only these are closed."""
    made = []
    for source, target in permutations(range(ranks), 2):
        way = replace(OPEN, source=source, target=target)
        if (source, target) in closed:
            way = replace(way, arrived=0, echoed=0, rtt_us=None, mtu_bytes=None, refusal=refusal)
        made.append(way)
    return made


def texts(ranks: int, found: list[Way]) -> list[str]:
    findings = judge(MEMBERS[:ranks], found)
    assert all(finding.level is Level.PROBLEM for finding in findings)
    return [finding.text for finding in findings]


@pytest.mark.quick
def test_all_is_well() -> None:
    [finding] = judge(MEMBERS, ways(4))
    assert (finding.level, finding.text) == (Level.OK, "all 4 hosts reach each other on UDP")


@pytest.mark.quick
def test_one_way_between_two_hosts() -> None:
    assert texts(2, ways(2, (0, 1))) == [
        "node1 (rank 1, 10.0.0.1) cannot be reached from node0 (rank 0, 10.0.0.0) on UDP: "
        "firewall or wrong interface"
    ]
    [text] = texts(2, ways(2, (0, 1), refusal="the sender's own system says: No route to host"))
    assert text.endswith("on UDP: the sender's own system says: No route to host")


@pytest.mark.quick
def test_the_host_that_explains_all_is_blamed_alone() -> None:
    inward = [(source, 2) for source in (0, 1, 3)]
    outward = [(2, target) for target in (0, 1, 3)]
    [text] = texts(4, ways(4, *inward))
    assert text.startswith("node2 (rank 2, 10.0.0.2) cannot be reached from any other host on UDP")
    [text] = texts(4, ways(4, *outward))
    assert text.startswith("nothing that node2 (rank 2, 10.0.0.2) sends on UDP arrives anywhere")
    [text] = texts(4, ways(4, *inward, *outward))
    assert text.startswith("node2 (rank 2, 10.0.0.2) exchanges UDP with no other host")
    [text] = texts(4, ways(4, (1, 3)))
    assert text.startswith("node3 (rank 3, 10.0.0.3) cannot be reached from node1")


@pytest.mark.quick
def test_hosts_that_offer_the_same_address() -> None:
    members = [replace(member, address="172.17.0.1") for member in MEMBERS[:2]]
    finding = judge(members, ways(2))[0]
    assert finding.level is Level.PROBLEM
    assert (
        "node0 (rank 0, 172.17.0.1) and node1 (rank 1, 172.17.0.1) offer the same" in finding.text
    )
    assert "ROCECOLL_SOCKET_IFNAME=^docker" in finding.cure
    shared = [replace(member, host_id="one") for member in members]
    assert judge(shared, ways(2))[0].level is Level.OK


@pytest.mark.quick
def test_loss_and_mtu_are_warnings() -> None:
    one, other = ways(2)
    [finding] = judge(MEMBERS[:2], [replace(one, arrived=17), other])
    assert finding.level is Level.WARNING
    assert finding.text.endswith("3 of 20 packets were lost")
    [finding] = judge(MEMBERS[:2], [replace(one, route_mtu_bytes=9000), other])
    assert finding.level is Level.WARNING
    assert "packets of 1500 bytes get through, node0's interface sends up to 9000" in finding.text
    [finding] = judge(MEMBERS[:2], [replace(one, mtu_bytes=None), other])
    assert finding.level is Level.PROBLEM and "those of 1200 bytes do not" in finding.text


@pytest.mark.quick
@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 8])
def test_streams_take_turns(ranks: int) -> None:
    """Each pair meets once, and no rank is in two pairs at a time."""
    met = []
    for partners in turns(ranks):
        assert all(partners[partners[rank]] == rank for rank in partners)
        met += [(a, b) for a, b in partners.items() if 0 <= a < b]
    assert sorted(met) == list(combinations(range(ranks), 2))


def doctor(place: str, *more: str) -> list[str]:
    return ["-m", "rocecoll", "doctor", "--store", place, *more]


def on_hosts(hosts: tuple[Host, ...], *more: str) -> list[subprocess.CompletedProcess[str]]:
    command = doctor(f"{hosts[0].ipv4}:{free_port()}", "--wait-s", "120", *more)
    return run_on_hosts(hosts, 1, [command] * len(hosts), COLUMNS="300")


def test_two_hosts(hosts: tuple[Host, ...]) -> None:
    results = on_hosts(hosts)
    for result in results:
        assert result.returncode == 0, result.stdout
        assert "all 2 hosts reach each other on UDP" in result.stdout
    tables = [result.stdout for result in results if "round trip us" in result.stdout]
    assert len(tables) == 1  # of rank 0
    assert tables[0].count("20/20") == 2 and tables[0].count(" 1500 ") == 2


def test_a_firewall_is_named_on_both_sides(hosts: tuple[Host, ...]) -> None:
    """The second host drops what comes in."""
    forbid_udp(hosts[1], "blackhole", "iif", hosts[1].interface)
    for result in on_hosts(hosts):
        assert result.returncode == 1, result.stdout
        assert f", {hosts[1].ipv4}) cannot be reached from " in result.stdout
        assert f", {hosts[0].ipv4}) on UDP: firewall or wrong interface" in result.stdout
        assert f", {hosts[0].ipv4}) cannot be reached" not in result.stdout


def test_a_host_that_may_not_send_says_what_its_system_says(hosts: tuple[Host, ...]) -> None:
    forbid_udp(hosts[1], "prohibit", "iif", "lo")
    for result in on_hosts(hosts):
        assert result.returncode == 1, result.stdout
        assert f", {hosts[1].ipv4}) on UDP: the sender's own system says: Perm" in result.stdout


def test_a_smaller_mtu_on_the_way_is_measured(hosts: tuple[Host, ...]) -> None:
    """The second host's end drops longer packets; a veth lets 4 bytes more pass, for a VLAN tag."""
    small = ip("-n", hosts[1].namespace, "link", "set", hosts[1].interface, "mtu", "1300")
    assert small.returncode == 0, small.stderr
    for result in on_hosts(hosts, "--json"):
        assert result.returncode == 0, result.stdout
        found, _ = json.JSONDecoder().raw_decode(
            result.stdout[result.stdout.index('{\n "members"') :]
        )
        address = {member["rank"]: member["address"] for member in found["members"]}
        by_source: dict[str, Any] = {address[way["source"]]: way for way in found["ways"]}
        assert 1300 <= by_source[hosts[0].ipv4]["mtu_bytes"] <= 1304
        assert by_source[hosts[0].ipv4]["route_mtu_bytes"] == 1500
        assert by_source[hosts[1].ipv4]["mtu_bytes"] == 1300
        assert "MTUs on the way differ" in found["findings"][0]["text"]


def test_a_host_that_does_not_come_is_named() -> None:
    command = doctor(f"127.0.0.1:{free_port()}", "--wait-s", "1")
    [result] = run_programs([[sys.executable, *command]], [environment()])
    assert result.returncode == 1, result.stdout
    assert "waited 1 s for rank 1 of 2: start `rocecoll doctor --store` with" in result.stdout


def test_those_who_came_learn_who_is_missing() -> None:
    store = HashStore()
    store.set("rocecoll/doctor/key/0", json.dumps("00" * 16))  # rank 2 need not wait for it
    minute = timedelta(minutes=1)
    with ThreadPoolExecutor() as threads:
        third = threads.submit(try_pairs, store, 2, 3, "127.0.0.1", (0, 0), minute)
        store.wait(["rocecoll/doctor/member/2"], minute)
        first = threads.submit(try_pairs, store, 0, 3, "127.0.0.1", (0, 0), timedelta(seconds=1))
        for said in (first, third):
            with pytest.raises(PairsError, match=r"^rank 0 waited 1 s for rank 1 of 3: start"):
                said.result(timeout=60)


def test_ctrl_c_ends_the_wait_for_others() -> None:
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    command = [sys.executable, *doctor(f"127.0.0.1:{store.port}")]
    with subprocess.Popen(command, env=environment()) as process:
        try:
            wait_until(lambda: store.check(["rocecoll/doctor/ranks"]), "the process has come")
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 128 + signal.SIGINT
        finally:
            process.kill()


def test_a_port_of_another_program_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        command = doctor(f"127.0.0.1:{silent.getsockname()[1]}", "--wait-s", "1")
        result = subprocess.run(
            [sys.executable, *command],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert result.returncode == 1, result.stderr
    assert "the port is open, but what listens there does not answer as a Store" in result.stderr


@pytest.mark.quick
@pytest.mark.parametrize(
    "place", ["node1", "node1:", ":29500", "node1:x", "node1:0", "node1:65536", "node1:\u00b2"]
)
def test_a_place_without_port_is_a_wrong_command_line(place: str) -> None:
    result = CliRunner().invoke(app, ["doctor", "--store", place], env={"COLUMNS": "300"})
    assert result.exit_code == 2
    assert "--store is HOST:PORT, as node1:29500" in result.output


@pytest.mark.quick
@pytest.mark.parametrize("wait_s", ["inf", "nan", "-1", "0", "1e300"])
def test_a_wait_that_no_clock_has_is_a_wrong_command_line(wait_s: str) -> None:
    result = CliRunner().invoke(app, ["doctor", "--store", "node1:29500", "--wait-s", wait_s])
    assert result.exit_code == 2
    assert "--wait-s" in result.output


@pytest.mark.quick
def test_a_report_is_of_one_host(tmp_path: Path) -> None:
    arguments = ["doctor", "--store", "node1:29500", "--report", str(tmp_path / "report.txt")]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})
    assert result.exit_code == 2
    assert "--report tells of this host alone" in result.output


@pytest.mark.quick
def test_a_rank_that_there_is_not_is_a_wrong_command_line() -> None:
    arguments = ["doctor", "--store", "127.0.0.1:1", "--rank", "2", "--wait-s", "1"]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})
    assert result.exit_code == 2
    assert "--rank 2 is none of 2: accepted is 0 to 1" in result.output
