# SPDX-License-Identifier: Apache-2.0
"""What NICs of several makes count, as `rocecoll devices`, `doctor` and `status` show it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from functools import partial
from io import StringIO
from pathlib import Path

import namespaces
import pytest
from launch import ROOT, environment, run_programs
from namespaces import Host
from rich.console import Console
from sysfs_tree import count, two_devices, write
from typer.testing import CliRunner

import rocecoll.cli.status
from rocecoll.cli.app import app
from rocecoll.cli.devices import show
from rocecoll.diagnosis.finding import Level
from rocecoll.diagnosis.machine import rdma
from rocecoll.diagnosis.machine.devices import Devices
from rocecoll.diagnosis.machine.rdma_ports import parse_verdicts, read_ports
from rocecoll.host import port_counters
from rocecoll.host.port_counters import Sign, nic_counters, sign_of, signs, spell

pytestmark = pytest.mark.quick

CHOSEN = "mlx5_0 port 1, GID 3 (192.0.2.1, RoCE v2), MTU 4096: chosen"


def made_up(sysfs: Path) -> Devices:
    verdicts, remarks = parse_verdicts(CHOSEN)
    return Devices([], "192.0.2.1", "because", read_ports(sysfs), verdicts, remarks)


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    two_devices(tmp_path)
    count(tmp_path, "mlx5_0", {"out_of_sequence": 12, "packet_seq_err": 0, "np_cnp_sent": 7})
    count(tmp_path, "mlx5_0", {"rx_write_requests": 5, "lifespan": 10})
    count(tmp_path, "mlx5_0", {"port_xmit_discards": 3, "port_xmit_data": 99}, "counters")
    return tmp_path


@pytest.mark.parametrize(
    ("driver", "name", "sign"),
    [
        ("mlx5", "local_ack_timeout_err", Sign.LOST),
        ("mlx5", "rnr_nak_retry_err", Sign.NOT_READY),
        ("mlx5", "np_ecn_marked_roce_packets", Sign.MARKED),
        ("mlx5", "rx_prio3_pause", Sign.PAUSED),
        ("mlx5", "rx_discards_phy", Sign.LOST),
        ("bnxt_re", "oos_drop_count", Sign.LOST),
        ("bnxt_re", "rx_ecn_marked_pkts", Sign.MARKED),
        ("bnxt_re", "tx_pfc_ena_frames_pri3", Sign.PAUSED),
        ("ionic", "req_tx_retry_excd_err", Sign.GAVE_UP),
        ("ionic", "frames_rx_pripause", Sign.PAUSED),
        ("irdma", "cnpHandled", Sign.MARKED),
        ("irdma", "tx_priority_3_xoff.nic", Sign.PAUSED),
        ("mana", "requester_oos_nak", Sign.LOST),
        ("mana", "nak_access_error", Sign.REFUSED),
        ("rxe", "rcvd_seq_err", Sign.LOST),
        ("rxe", "retry_exceeded_err", Sign.GAVE_UP),
    ],
)
def test_each_make_has_its_names(driver: str, name: str, sign: Sign) -> None:
    assert sign_of(name) is sign
    # The guide names it, too, with any priority.
    text = (ROOT / "docs" / "roce.md").read_text()
    assert f"`{re.sub('(?<=prio)3|(?<=pri)3|(?<=priority_)3', 'N', name)}`" in text, driver


def test_what_carries_no_sign_is_left_out(sysfs: Path) -> None:
    up, down = read_ports(sysfs)
    assert up.counters == {
        "np_cnp_sent": 7,
        "out_of_sequence": 12,
        "packet_seq_err": 0,
        "port_xmit_discards": 3,
    }
    assert down.counters == {}


def test_a_counter_that_the_driver_does_not_tell_is_left_out(sysfs: Path) -> None:
    at = sysfs / "infiniband" / "mlx5_0" / "ports" / "1" / "hw_counters"
    write(at / "out_of_sequence", "N/A (no PMA)")
    (at / "packet_seq_err").unlink()
    (at / "packet_seq_err").mkdir()  # reading it is an error
    assert "out_of_sequence" not in read_ports(sysfs)[0].counters
    assert "packet_seq_err" not in read_ports(sysfs)[0].counters


def test_statistics_of_the_interface_below(sysfs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statistics = {"ens1f0np0": {"rx_prio3_pause": 4, "rx_packets": 1000, "tx_prio3_pause": 0}}
    monkeypatch.setattr(port_counters, "read_statistics", statistics.__getitem__)
    counters = read_ports(sysfs)[0].counters
    assert counters["rx_prio3_pause"] == 4 and "rx_packets" not in counters
    assert signs(counters)[Sign.PAUSED] == {"rx_prio3_pause": 4}


def test_devices_shows_what_is_not_0(sysfs: Path) -> None:
    console = Console(file=StringIO(), width=80, highlight=False, markup=False)
    show(made_up(sysfs), console)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    at = lines.index("  * rocecoll: RDMA MTU 4096, chosen")
    assert lines[at + 1 : at + 4] == [
        "  lost or overtaken, sent again: out_of_sequence 12, port_xmit_discards 3",
        "  congestion marked (ECN): np_cnp_sent 7",
        "mlx5_1 port 1: DOWN, Ethernet, 100 Gb/sec (4X EDR)",
    ]


def test_doctor_tells_of_losses_of_the_port_that_is_taken(sysfs: Path) -> None:
    count(sysfs, "mlx5_1", {"out_of_sequence": 1000})
    [finding] = rdma.judge_counters(made_up(sysfs))
    assert finding.level is Level.NOTE and "out_of_sequence 12" in finding.text
    assert "np_cnp_sent" not in finding.text, "congestion control at work is no trouble"
    assert finding.cure == "", "no command mends it"
    count(sysfs, "mlx5_0", {"out_of_sequence": 0})
    count(sysfs, "mlx5_0", {"port_xmit_discards": 0}, "counters")
    [finding] = rdma.judge_counters(made_up(sysfs))
    assert finding.level is Level.OK


def test_doctor_says_nothing_where_nothing_is_counted(tmp_path: Path) -> None:
    assert rdma.judge_counters(made_up(two_devices(tmp_path))) == []


def test_status_tells_what_came_since_the_first_look(
    sysfs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counters = partial(nic_counters, sysfs / "infiniband")
    monkeypatch.setattr(rocecoll.cli.status, "nic_counters", counters)
    monkeypatch.setattr(rocecoll.cli.status, "ask_all", list)
    shown = CliRunner().invoke(app, ["status", "--peers"], env={"COLUMNS": "100"}).output
    assert "mlx5_0 port 1: congestion marked (ECN): np_cnp_sent 7" in shown
    told = json.loads(CliRunner().invoke(app, ["status", "--json"]).stdout)
    assert told["nics"]["mlx5_0 port 1"]["out_of_sequence"] == 12
    first = counters()
    count(sysfs, "mlx5_0", {"out_of_sequence": 17})
    lines = [str(line) for line in rocecoll.cli.status.nic_lines(counters(), first)]
    assert lines[0].endswith("out_of_sequence 17 (+5), port_xmit_discards 3")


def test_programs_get_them_by_port(sysfs: Path) -> None:
    told = nic_counters(sysfs / "infiniband")
    assert told == {port.name: port.counters for port in read_ports(sysfs)}
    assert told["mlx5_0 port 1"]["out_of_sequence"] == 12
    assert nic_counters(sysfs / "none") == {}


def test_a_counter_that_began_anew_has_not_grown() -> None:
    assert spell(Sign.LOST, {"a": 3}, {"a": 9}) == "lost or overtaken, sent again: a 3"
    assert spell(Sign.LOST, {"a": 3}, {}) == "lost or overtaken, sent again: a 3 (+3)"


def test_no_name_stands_for_two_signs() -> None:
    names = [name for names in port_counters._NAMES.values() for name in names.split()]
    assert len(names) == len(set(names))


@pytest.fixture
def hosts() -> Iterator[tuple[Host, ...]]:
    yield from namespaces.joined_hosts()


def test_statistics_are_those_of_the_kernel(hosts: tuple[Host, ...]) -> None:
    """veth counts the index of its peer."""
    program = (
        "import json, sys; from rocecoll.host.netdev_statistics import read_statistics as r; "
        "print(json.dumps([r(sys.argv[1]), r('lo'), r('rocecoll_no_such')]))"
    )
    command = ["ip", "netns", "exec", hosts[0].namespace, sys.executable, "-c", program]
    [result] = run_programs([[*command, hosts[0].interface]], [environment()])
    assert result.returncode == 0, result.stderr
    of_veth, of_loopback, of_none = json.loads(result.stdout)
    shown = namespaces.ip("-j", "-n", hosts[1].namespace, "link", "show", hosts[1].interface)
    assert of_veth["peer_ifindex"] == json.loads(shown.stdout)[0]["ifindex"]
    assert of_loopback == of_none == {}
