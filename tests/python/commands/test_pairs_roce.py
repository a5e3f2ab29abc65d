# SPDX-License-Identifier: Apache-2.0
"""rocecoll doctor --store where hosts have RoCE: which one is blamed, and the exchange itself.

What no machine without devices can show is in tests/roce/test_doctor.py.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import permutations

import pytest
from rich.console import Console
from torch.distributed import HashStore

from rocecoll import options
from rocecoll.cli.pairs import show
from rocecoll.diagnosis.finding import Level
from rocecoll.diagnosis.pairs import roce_exchange
from rocecoll.diagnosis.pairs.roce import find_port, try_roce
from rocecoll.diagnosis.pairs.roce_exchange import Measured, RoceEnd
from rocecoll.diagnosis.pairs.roce_verdicts import Roce, RocePort, RoceWay, judge_roce
from rocecoll.diagnosis.pairs.udp_verdicts import Member, Way

MEMBERS = [Member(rank, f"node{rank}", f"id{rank}", f"10.0.0.{rank}", 5000) for rank in range(4)]
PORTS = [RocePort("mlx5_0 port 1, GID 3", f"10.0.0.{rank}", "") for rank in range(4)]
NO_PORT = RocePort("", "", "there is no RDMA device")
NO_ANSWER = "no answer over RoCE within 3000 ms"


def roce(ranks: int, *failing: tuple[int, int], failure: str = NO_ANSWER) -> Roce:
    """Every pair works but these, which fail in both directions."""
    ways = [
        RoceWay(source, target, failure, 0, 0)
        if (source, target) in failing or (target, source) in failing
        else RoceWay(source, target, "", 5.0, 90_000.0)
        for source, target in permutations(range(ranks), 2)
    ]
    return Roce("rc", False, PORTS[:ranks], ways)


def without(found: Roce, rank: int, lack: RocePort = NO_PORT) -> Roce:
    ports = [lack if number == rank else port for number, port in enumerate(found.ports)]
    ways = [way for way in found.ways if rank not in (way.source, way.target)]
    return replace(found, ports=ports, ways=ways)


def texts(found: Roce, level: Level) -> list[str]:
    findings = judge_roce(MEMBERS[: len(found.ports)], found)
    assert all(finding.level is level for finding in findings), findings
    return [finding.text for finding in findings]


@pytest.mark.quick
def test_all_is_well() -> None:
    assert texts(roce(3), Level.OK) == ["all 3 hosts reach each other over RoCE"]


@pytest.mark.quick
def test_nobody_has_it_and_nobody_wants_it() -> None:
    assert judge_roce(MEMBERS[:2], Roce("rc", False, [NO_PORT, NO_PORT], [])) == []


@pytest.mark.quick
def test_the_host_without_a_port_is_named() -> None:
    lack, fine = judge_roce(MEMBERS[:3], without(roce(3), 2))
    assert lack.level is Level.WARNING
    assert lack.text == (
        "UDP carries what goes to and from node2 (rank 2, 10.0.0.2): there is no RDMA device"
    )
    assert lack.cure == "rocecoll devices  # on node2"
    assert (fine.level, fine.text) == (
        Level.OK,
        "all 2 hosts that have a port reach each other over RoCE",
    )


@pytest.mark.quick
def test_one_port_alone_is_of_no_use() -> None:
    [text] = texts(without(roce(2), 0), Level.NOTE)
    assert text.startswith("UDP carries what goes to and from node0 (rank 0, 10.0.0.0)")


@pytest.mark.quick
def test_a_job_that_insists_on_roce_stops_at_a_port_that_is_down() -> None:
    down = RocePort("", "", "mlx5_0 port 1 is not active (PORT_DOWN)")
    found = replace(without(roce(2), 1, down), required=True)
    assert texts(found, Level.PROBLEM) == [
        "a job over rc does not start on node1 (rank 1, 10.0.0.1): mlx5_0 port 1 is not active "
        "(PORT_DOWN)"
    ]


@pytest.mark.quick
def test_the_host_that_explains_all_is_blamed_alone() -> None:
    [finding] = judge_roce(MEMBERS, roce(4, (0, 2), (1, 2), (2, 3)))
    assert finding.level is Level.WARNING
    assert finding.text == (
        "node2 (rank 2, 10.0.0.2) reaches no other host over RoCE, while others do and UDP works "
        "(mlx5_0 port 1, GID 3, 10.0.0.2): no answer over RoCE within 3000 ms; a switch, VLAN or "
        "firewall stops its packets (UDP port 4791)"
    )
    assert finding.cure.startswith("ib_write_bw -d mlx5_0 -x 3  # on node2; on the other")


@pytest.mark.quick
def test_single_pairs_are_told_once() -> None:
    [text] = texts(roce(4, (1, 3)), Level.WARNING)
    assert text.startswith("node1 (rank 1, 10.0.0.1) and node3 (rank 3, 10.0.0.3) do not reach")
    exceeded = "retries exceeded: the peer does not answer; its host or the path is gone"
    [text] = texts(roce(2, (0, 1), failure=exceeded), Level.WARNING)
    assert text.startswith("node0 (rank 0, 10.0.0.0) and node1 (rank 1, 10.0.0.1) do not reach")
    assert text.endswith(
        "retries exceeded: the peer does not answer; a switch, VLAN or firewall stops its packets "
        "(UDP port 4791)"
    )


@pytest.mark.quick
def test_the_end_that_knows_the_reason_is_believed() -> None:
    found = roce(2)
    first, second = (
        replace(way, failure=failure)
        for way, failure in zip(found.ways, ("the peer says: broken", "broken"), strict=True)
    )
    [text] = texts(replace(found, ways=[first, second]), Level.WARNING)
    assert text.endswith("while UDP works (mlx5_0 port 1, GID 3 and mlx5_0 port 1, GID 3): broken")


@pytest.mark.quick
@pytest.mark.parametrize("sixth", [0, 1])
def test_gids_of_different_families(sixth: int) -> None:
    found = roce(2, (0, 1), failure="one GID is IPv4, one IPv6")
    ports = [replace(port) for port in found.ports]
    ports[sixth] = replace(ports[sixth], address="fe80::1")
    [finding] = judge_roce(MEMBERS[:2], replace(found, ports=ports))
    assert f"10.0.0.{1 - sixth} is IPv4, fe80::1 is IPv6" in finding.text
    assert finding.cure.startswith("export ROCECOLL_SOCKET_FAMILY=ipv4")


@pytest.mark.quick
def test_the_table_has_columns_for_roce_where_somebody_tried_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ways = [
        Way(a, b, 20, 20, 20, "", 50.0, 1500, 1500, 900.0) for a, b in permutations(range(3), 2)
    ]
    show(MEMBERS[:3], ways, Roce("rc", False, [NO_PORT] * 3, []), Console(width=100))
    assert "RoCE" not in capsys.readouterr().out
    show(MEMBERS[:3], ways, without(roce(3, (0, 1)), 2), Console(width=100))
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.endswith("RoCE us  Mbit/s")
    ends = [line.split()[-2:] for line in lines]
    assert ends == [["fails", "-"], ["-", "-"], ["fails", "-"], ["-", "-"], ["-", "-"], ["-", "-"]]


def exchanged() -> list[Measured]:
    """The results of both ends, each in a thread."""
    with (
        RoceEnd(options.complete({}), "udp", "127.0.0.1") as one,
        RoceEnd(options.complete({}), "udp", "127.0.0.1") as other,
        ThreadPoolExecutor() as threads,
    ):
        addresses = [one.runtime.address, other.runtime.address]
        said = [
            threads.submit(end.exchange, (3, 7), own, addresses, b"k" * 16)
            for own, end in enumerate((one, other))
        ]
        return [result.result(timeout=60) for result in said]


def test_an_exchange_is_measured_at_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over UDP, which every machine has, as if it were RoCE."""
    monkeypatch.setattr(roce_exchange, "_WITHOUT_ROCE", "")
    for measured in exchanged():
        assert measured.failure == ""
        assert measured.rtt_us > 0 and measured.bandwidth_mbit_s > 0


def test_an_exchange_that_another_path_carries_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roce_exchange, "_PROOF_LIMIT_S", 0.1)
    assert exchanged() == [Measured("no path within 0.1 s")] * 2


def test_hosts_without_devices_agree_that_there_is_nothing_to_try() -> None:
    settings = options.complete({"ib_hca": "=rocecoll_no_such", "transport": "rc"})
    store = HashStore()
    assert find_port(settings, "127.0.0.1").lack
    with ThreadPoolExecutor() as threads:
        said = [
            threads.submit(try_roce, store, rank, MEMBERS[:2], [], settings) for rank in range(2)
        ]
        one, other = (result.result(timeout=60) for result in said)
    assert one == other
    assert one.required and one.ways == [] and all(port.lack for port in one.ports)
