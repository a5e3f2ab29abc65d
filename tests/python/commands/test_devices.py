# SPDX-License-Identifier: Apache-2.0
"""rocecoll devices: tables of made-up RDMA devices and of this machine's interfaces."""

from __future__ import annotations

import json
import os
import re
import sys
from io import StringIO
from pathlib import Path

import pytest
from launch import ROOT, environment, run_programs
from rich.console import Console
from sysfs_tree import two_devices
from typer.testing import CliRunner

from rocecoll import options
from rocecoll.cli.app import app
from rocecoll.cli.devices import show
from rocecoll.diagnosis.machine.devices import Devices, read_devices
from rocecoll.diagnosis.machine.network_interfaces import UdpInterface
from rocecoll.diagnosis.machine.rdma_ports import parse_verdicts, read_ports
from rocecoll.host import interfaces

pytestmark = pytest.mark.quick


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(options.PREFIX) or name == "MASTER_ADDR":
            monkeypatch.delenv(name)


def described() -> str:
    """What the core says of two such devices, as the guide quotes it."""
    text = (ROOT / "docs" / "roce.md").read_text()
    lines = re.findall(r"^mlx5_[01] port 1.*: .*$", text, re.MULTILINE)
    assert len(lines) == 2
    return "\n".join(lines)


def made_up(sysfs: Path, description: str) -> Devices:
    verdicts, remarks = parse_verdicts(description)
    eth0 = UdpInterface("eth0", "192.0.2.1", True, 9000, 100_000, True, None)
    return Devices([eth0], "192.0.2.1", "because", read_ports(sysfs), verdicts, remarks)


def shown(found: Devices) -> list[str]:
    console = Console(file=StringIO(), width=80, highlight=False, markup=False)
    show(found, console)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_ports_and_gids_from_sysfs(tmp_path: Path) -> None:
    up, down = read_ports(two_devices(tmp_path))
    assert (up.device, up.port, up.state, up.speed) == (
        "mlx5_0",
        1,
        "ACTIVE",
        "100 Gb/sec (4X EDR)",
    )
    assert (up.link_layer, up.netdev, up.netdev_mtu_bytes) == ("Ethernet", "ens1f0np0", 9000)
    assert (up.numa_node, down.numa_node) == (1, None)
    assert [(gid.index, gid.version, gid.ipv4) for gid in up.gids] == [
        (0, "RoCE v1", ""),
        (1, "RoCE v2", ""),
        (2, "RoCE v1", "192.0.2.1"),
        (3, "RoCE v2", "192.0.2.1"),
    ]
    assert up.gids[0].gid == "fe80::526b:4bff:fe4f:8f01"
    assert (down.state, down.gids) == ("DOWN", ())


def test_no_sysfs_no_ports(tmp_path: Path) -> None:
    assert read_ports(tmp_path) == []


def test_the_core_marks_what_it_takes(tmp_path: Path) -> None:
    lines = shown(made_up(two_devices(tmp_path), described()))
    assert (
        "mlx5_0 port 1: ACTIVE, Ethernet, 100 Gb/sec (4X EDR), ens1f0np0 (MTU 9000), NUMA"
    ) in lines
    marked = [line.split() for line in lines if line.lstrip().startswith("*")]
    assert ["*", "eth0", "192.0.2.1", "up", "9000", "100000", "on", "?"] in marked
    assert ["*", "3", "::ffff:192.0.2.1", "RoCE", "v2", "192.0.2.1", "ens1f0np0"] in marked
    assert "  * rocecoll: RDMA MTU 4096, chosen" in lines
    assert "  rocecoll: is not active (PORT_DOWN); bring its network interface up" in lines


def test_a_device_without_provider_is_said_to_be_unseen(tmp_path: Path) -> None:
    lines = shown(made_up(two_devices(tmp_path), "the RoCE plug-in does not load: no such file"))
    assert sum("rocecoll does not see it" in line for line in lines) == 2
    assert "the RoCE plug-in does not load: no such file" in lines


def test_this_machine() -> None:
    result = CliRunner().invoke(app, ["devices", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    loopback = [row for row in found["interfaces"] if row["address"] == "127.0.0.1"]
    assert loopback[0]["up"] and loopback[0]["mtu_bytes"] >= 1500
    assert found["address"] == interfaces.choose_address("", "auto", None)
    assert found["verdicts"] or found["remarks"]


def test_an_interface_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCECOLL_SOCKET_IFNAME", "=wlan9")
    result = CliRunner().invoke(app, ["devices"], env={"COLUMNS": "500"})
    assert result.exit_code == 1
    assert "none is chosen: no interface of this host fits ROCECOLL_SOCKET_IFNAME" in result.output
    settings = options.complete({"socket_ifname": "=wlan9"})
    assert read_devices(settings).address == ""


def test_program() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "rocecoll", "devices"]
    [result] = run_programs([command], [environment(ROCECOLL_SOCKET_IFNAME="=lo", COLUMNS="80")])
    assert result.returncode == 0
    assert "* other hosts are told 127.0.0.1: there is only loopback" in result.stdout
    assert " rocecoll.options\n" in result.stdout and " torch\n" not in result.stdout
