# SPDX-License-Identifier: Apache-2.0
"""rocecoll doctor: what it says of machines that are made up, and of this one."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from launch import environment, run_programs
from sysfs_tree import two_devices
from typer.testing import CliRunner

from rocecoll import options
from rocecoll.cli.app import app
from rocecoll.cli.findings_view import summary
from rocecoll.diagnosis.finding import Finding, Level
from rocecoll.diagnosis.machine import (
    addresses,
    limits,
    name_lookups,
    rdma,
    shared_memory,
    software,
    udp_sockets,
)
from rocecoll.diagnosis.machine.checkup import CHECKS, examine
from rocecoll.diagnosis.machine.devices import Devices
from rocecoll.diagnosis.machine.firewall import check_firewall
from rocecoll.diagnosis.machine.network_interfaces import UdpInterface
from rocecoll.diagnosis.machine.rdma_ports import parse_verdicts, read_ports
from rocecoll.host import processors

pytestmark = pytest.mark.quick


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(options.PREFIX) or name in ("MASTER_ADDR", "KUBERNETES_SERVICE_HOST"):
            monkeypatch.delenv(name)


def defaults() -> options.Settings:
    return options.complete({})


def names(table: dict[str, list[str]]) -> Callable[[str], list[str]]:
    def resolve(name: str) -> list[str]:
        if name not in table:
            raise OSError("Name or service not known")
        return table[name]

    return resolve


def test_all_bad_options_and_unknown_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCECOLL_DSCP", "99")
    monkeypatch.setenv("ROCECOLL_TRANSPORT", "tcp")
    monkeypatch.setenv("ROCECOLL_SOKET_IFNAME", "eth0")
    findings = software.check_options()
    assert [(finding.level, finding.cure) for finding in findings] == [
        (Level.PROBLEM, "unset ROCECOLL_TRANSPORT"),
        (Level.PROBLEM, "unset ROCECOLL_DSCP"),
        (
            Level.WARNING,
            'export ROCECOLL_SOCKET_IFNAME="$ROCECOLL_SOKET_IFNAME"; unset ROCECOLL_SOKET_IFNAME',
        ),
    ]
    assert "ROCECOLL_DSCP='99': accepted is" in findings[1].text


@pytest.mark.parametrize(
    ("version", "level", "text"),
    [("", Level.PROBLEM, "not installed"), ("1.0.0", Level.PROBLEM, "this is torch 1.0.0")],
)
def test_torch_that_does_not_fit(
    version: str, level: Level, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert software.check_torch_version()[0].level is Level.OK
    monkeypatch.setattr(software, "installed_version", lambda package: version)
    [finding] = software.check_torch_version()
    assert finding.level is level and text in finding.text and "pip install" in finding.cure


def test_host_name_that_is_loopback() -> None:
    """What Debian's installer writes, and what torchrun stumbles over."""
    table = {"node1": ["127.0.1.1"], "node2": ["192.0.2.7"], "node3": ["127.0.0.1", "::1"]}
    look = names(table)
    finding = addresses.check_host_name("node1", "192.0.2.1", look)
    assert finding.level is Level.WARNING
    assert finding.text.startswith("node1 is 127.0.1.1 on this host itself (/etc/hosts)")
    assert finding.cure == r"sudo sed -i 's/^127\.0\.1\.1\b/192.0.2.1/' /etc/hosts"
    assert addresses.check_host_name("node2", "192.0.2.1", look).level is Level.OK
    finding = addresses.check_host_name("node3", "192.0.2.1", look)
    assert finding.cure == "torchrun --local-addr 192.0.2.1 ..."
    finding = addresses.check_host_name("node4", "192.0.2.1", look)
    assert finding.level is Level.WARNING and "node4 has no address here" in finding.text


def test_meeting_point_without_address() -> None:
    [finding] = addresses.check_meeting_point("node4", names({}))
    assert finding.level is Level.PROBLEM and "MASTER_ADDR=node4 has no address" in finding.text
    assert addresses.check_meeting_point(None) == []


def test_a_name_server_that_answers_some() -> None:
    """The lookups that wait do so until the end of the test."""
    over = threading.Event()
    lost = iter([True] * 5 + [False] * name_lookups.LOOKUPS)
    asked: queue.Queue[str] = queue.Queue()

    def look(address: str) -> None:
        asked.put(address)
        if next(lost):
            over.wait()

    names = {"::ffff:127.0.0.1": "localhost", "::ffff:192.0.2.1": "node1"}
    try:
        missing = name_lookups.unanswered(list(names), look, limit_s=0.5)
    finally:
        over.set()
    assert 5 <= missing <= name_lookups.LOOKUPS  # a busy machine may not get to all others
    all_asked = sorted(asked.get(timeout=60) for _ in range(name_lookups.LOOKUPS))
    half = name_lookups.LOOKUPS // 2
    assert all_asked == ["::ffff:127.0.0.1"] * half + ["::ffff:192.0.2.1"] * half
    finding = name_lookups.judge_lookups(5, names)
    assert finding.level is Level.WARNING and ", 5 had no answer within 2 s: " in finding.text
    lines = r"::ffff:127.0.0.1 localhost\n::ffff:192.0.2.1 node1\n"
    assert finding.cure == f"printf '{lines}' | sudo tee -a /etc/hosts"


def test_a_name_server_that_answers_all() -> None:
    assert name_lookups.unanswered(["::1"], lambda address: None, limit_s=60) == 0
    assert name_lookups.judge_lookups(0, {}).level is Level.OK
    assert name_lookups.as_ipv6("192.0.2.1") == "::ffff:192.0.2.1"
    assert name_lookups.as_ipv6("fd00::1") == "fd00::1"


@pytest.mark.parametrize(
    ("mtu", "level"),
    [(1200, Level.PROBLEM), (1400, Level.NOTE), (1500, Level.OK), (9000, Level.OK)],
)
def test_mtu(mtu: int, level: Level) -> None:
    finding = addresses.check_mtu(UdpInterface("eth0", "192.0.2.1", True, mtu, None, None, None))
    assert finding.level is level and f"eth0 has {mtu} bytes" in finding.text


def test_only_loopback_is_a_warning() -> None:
    findings = addresses.check_addresses(options.complete({"socket_ifname": "=lo"}))
    assert [finding.level for finding in findings] == [Level.WARNING]
    assert "only ranks of this host can be reached there" in findings[0].text
    [finding] = addresses.check_addresses(options.complete({"socket_ifname": "=wlan9"}))
    assert finding.level is Level.PROBLEM


@pytest.mark.parametrize(
    ("variables", "cure"),
    [
        ({}, "ip address show up"),
        (
            {"ROCECOLL_SOCKET_IFNAME": "=lo", "NCCL_SOCKET_FAMILY": "AF_INET6"},
            "unset ROCECOLL_SOCKET_IFNAME NCCL_SOCKET_FAMILY",
        ),
        ({"ROCECOLL_SOCKET_FAMILY": "ipv6"}, "unset ROCECOLL_SOCKET_FAMILY"),
    ],
)
def test_only_what_is_set_is_to_be_unset(
    variables: dict[str, str], cure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    [finding] = addresses.check_addresses(options.complete({"socket_ifname": "=wlan9"}))
    assert finding.cure == cure


def test_small_buffers_cost_and_their_cure() -> None:
    finding = udp_sockets.judge_buffers(4 << 20, 212992, 212992)
    assert finding.level is Level.WARNING
    assert finding.text.startswith("208 KiB to send and 208 KiB to receive of the 4 MiB asked for")
    limits = "net.core.rmem_max=4194304 net.core.wmem_max=4194304"
    assert finding.cure == f"sudo sysctl -w {limits}"
    assert udp_sockets.judge_buffers(1 << 20, 1 << 20, 1 << 20).level is Level.OK
    assert min(udp_sockets.granted_buffers(65536)) >= 65536


def test_offload_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    assert udp_sockets.check_offload(True).text.startswith("works: 8 datagrams in one call")
    assert udp_sockets.check_offload(False).cure == "unset ROCECOLL_UDP_OFFLOAD"
    monkeypatch.setattr(udp_sockets, "_UDP_GRO", 9999)
    finding = udp_sockets.check_offload(True)
    assert finding.level is Level.WARNING and "Protocol not available" in finding.text


def test_memory_between_processes_is_tried() -> None:
    failures = shared_memory.try_child()
    assert set(failures) <= {"memfd", "fetch"}  # a container may forbid either
    [finding] = shared_memory.check_shared_memory(defaults())
    assert finding == shared_memory.judge(failures, shared_memory.ptrace_scope())
    assert (finding.level is Level.OK) == (not failures)
    [finding] = shared_memory.check_shared_memory(options.complete({"shm": False}))
    assert finding.level is Level.NOTE and "not used, by ROCECOLL_SHM" in finding.text


def test_memory_that_a_process_may_not_fetch() -> None:
    finding = shared_memory.judge({"fetch": "Operation not permitted"}, scope=2)
    assert finding.cure == "sudo sysctl -w kernel.yama.ptrace_scope=1"
    assert "in two copies" in finding.text and "Operation not permitted" in finding.text
    finding = shared_memory.judge({"fetch": "Operation not permitted"}, scope=0)
    assert "docker run --cap-add SYS_PTRACE" in finding.cure
    assert "loopback" in shared_memory.judge({"memfd": "Function not implemented"}, 0).text


def test_the_probe_tells_what_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 2**22 + 1)  # no process has such a number
    assert shared_memory.try_child()["fetch"]


def rdma_findings(sysfs: Path, description: str, needed: bool, devices: bool) -> list[Finding]:
    found = Devices([], "192.0.2.1", "", read_ports(sysfs), *parse_verdicts(description))
    return rdma.judge_ports(found, needed, devices)


CHOSEN = "mlx5_0 port 1, GID 3 (192.0.2.1, RoCE v2), MTU 4096: chosen"
DOWN = "{} port 1: is not active (PORT_DOWN); bring its network interface up"


def test_rdma_ports(tmp_path: Path) -> None:
    two_devices(tmp_path)
    findings = rdma_findings(tmp_path, f"{CHOSEN}\n{DOWN.format('mlx5_1')}", True, True)
    assert [(finding.level, finding.text.partition(":")[0]) for finding in findings] == [
        (Level.OK, "mlx5_0 port 1, GID 3, MTU 4096"),
        (Level.NOTE, "mlx5_1 port 1 is not active (PORT_DOWN); bring its network interface up"),
    ]
    both_down = "\n".join(DOWN.format(f"mlx5_{number}") for number in (0, 1))
    needed = rdma_findings(tmp_path, both_down, True, True)[-1]
    assert (needed.level, needed.cure) == (Level.PROBLEM, "export ROCECOLL_TRANSPORT=auto")
    assert rdma_findings(tmp_path, both_down, False, True)[-1].level is Level.NOTE


def test_rdma_that_a_container_does_not_have(tmp_path: Path) -> None:
    two_devices(tmp_path)
    hidden = rdma_findings(tmp_path, "there is no RDMA device", False, False)
    assert [finding.level for finding in hidden] == [Level.WARNING, Level.WARNING, Level.NOTE]
    assert "--device /dev/infiniband" in hidden[0].cure
    closed = rdma_findings(tmp_path, "there is no RDMA device", False, True)
    assert "ibverbs-providers" in closed[0].cure
    [none] = rdma_findings(tmp_path / "nothing", "there is no RDMA device", False, False)
    assert none.text.endswith("UDP and shared memory carry all: there is no RDMA device")


def test_limits() -> None:
    assert limits.judge_open_files(64).cure == "ulimit -n 1024"
    assert limits.judge_open_files(-1).level is limits.judge_open_files(1024).level is Level.OK
    assert rdma.judge_locked_memory(65536).cure == "ulimit -l unlimited"
    assert "64 KiB" in rdma.judge_locked_memory(65536).text
    assert rdma.judge_locked_memory(None).level is Level.OK
    assert rdma.locked_memory_limit() is None or rdma.locked_memory_limit() >= 0


@pytest.mark.parametrize(
    ("files", "granted"),
    [
        ({}, None),
        ({"sys/fs/cgroup/cpu.max": "max 100000"}, None),
        ({"sys/fs/cgroup/cpu.max": "50000 100000"}, 0.5),
        ({"sys/fs/cgroup/cpu.max": "not so"}, None),
        (
            {
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "250000",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            2.5,
        ),
    ],
)
def test_processors_of_a_container(
    files: dict[str, str], granted: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    assert processors.granted(tmp_path) == granted
    [finding] = limits.check_processors(tmp_path)
    assert finding.level is (Level.OK if granted is None else Level.WARNING)
    if granted is not None:
        assert f"limit is {granted:g} of the 16" in finding.text
        assert finding.cure == f"export OMP_NUM_THREADS={max(1, int(granted))} ROCECOLL_SPIN_US=0"


def test_containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.check_container(tmp_path)[0].level is Level.OK
    (tmp_path / ".dockerenv").touch()
    [finding] = limits.check_container(tmp_path)
    assert finding.level is Level.NOTE and "this is one (/.dockerenv)" in finding.text
    assert finding.cure == "docker run --network host ..."
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert limits.check_container(tmp_path)[0].cure == ""


NFT = """
table inet filter {
  chain input {
    type filter hook input priority filter; policy drop;
    tcp dport 22 accept
    udp dport 1024-65535 drop
  }
  chain output {
    type filter hook output priority filter; policy drop;
    udp dport 53 drop
  }
}
"""
IPTABLES = """
:INPUT DROP [0:0]
-A INPUT -p tcp -m tcp --dport 25 -j REJECT
-A INPUT -p udp -m udp --dport 1024:65535 -j DROP
-A INPUT -j REJECT --reject-with icmp-host-prohibited
-A FORWARD -j DROP
"""


def test_firewall_rules() -> None:
    settings = options.complete({"port_range": (40000, 40010)})
    found = check_firewall(settings, lambda command: NFT if command[0] == "nft" else None)
    assert [finding.text.partition(": it may drop")[0] for finding in found] == [
        "chain input of table inet filter drops what no rule accepts",
        'chain input of table inet filter has "udp dport 1024-65535 drop"',
    ]
    opened = "sudo nft insert rule inet filter input udp dport 40000-40010 accept"
    assert {finding.cure for finding in found} == {opened}
    found = check_firewall(defaults(), lambda command: IPTABLES if command[0] != "nft" else None)
    assert len(found) == 3
    assert found[0].cure == (
        "export ROCECOLL_PORT_RANGE=50000-50100; "
        "sudo iptables -I INPUT -p udp --dport 50000:50100 -j ACCEPT"
    )
    assert check_firewall(defaults(), lambda command: "")[0].level is Level.OK
    unreadable = check_firewall(defaults(), lambda command: None)
    assert unreadable[0].level is Level.NOTE and "takes root" in unreadable[0].text


def test_what_cannot_be_looked_at_hides_nothing_else() -> None:
    def broken(settings: options.Settings) -> list[Finding]:
        raise PermissionError("not for you")

    findings = examine(defaults(), {"broken": broken, "open files": CHECKS["open files"]})
    assert findings[0].text == "could not be looked at: PermissionError: not for you"
    assert findings[1].subject == "open files"


def test_summary() -> None:
    levels = [Level.OK, Level.WARNING, Level.PROBLEM, Level.WARNING]
    assert summary([Finding("x", level, "") for level in levels]) == "1 problem, 2 warnings"
    assert summary([Finding("x", Level.OK, "")]) == "all is well"


def test_command() -> None:
    result = CliRunner().invoke(app, ["doctor", "--json"], env={"ROCECOLL_DSCP": "99"})
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert {"options", "torch", "address", "UDP buffers", "shared memory", "RDMA"} <= {
        finding["subject"] for finding in found
    }
    result = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "80", "ROCECOLL_DSCP": "99"})
    lines = result.output.splitlines()
    assert "problem  options: ROCECOLL_DSCP='99': accepted is a whole number from 0 to 63" in (
        line.rstrip() for line in lines
    )
    assert "         $ unset ROCECOLL_DSCP" in lines
    assert lines[-1].startswith("1 problem")
    assert max(len(line) for line in lines if " $ " not in line) <= 80


def test_report_has_no_secrets(tmp_path: Path) -> None:
    """As a program; what it has of variables is what it needs, and torch stays away."""
    path = tmp_path / "report.txt"
    secrets = {"MY_TOKEN": "hunter2", "NCCL_SECRET": "hunter3", "SLURM_JWT": "hunter4"}
    command = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "rocecoll",
        "doctor",
        "--report",
        str(path),
    ]
    shown = {"ROCECOLL_ECN": "0", "RANK": "3"}
    [result] = run_programs([command], [environment(**secrets, **shown)])
    assert result.returncode == 0, result.stdout
    assert f"{path} has the report" in result.stdout
    assert " rocecoll.options\n" in result.stdout and " torch\n" not in result.stdout
    text = path.read_text()
    assert "hunter" not in text and "MY_TOKEN" not in text and "SLURM_JWT" not in text
    assert "\nNCCL_SECRET: (set)\n" in text
    assert "\nROCECOLL_ECN: 0\n" in text and "\nRANK: 3\n" in text
    assert "\nROCECOLL_ECN=0  (ROCECOLL_ECN)\n" in text
    for part in ("findings", "versions", "machine", "options", "devices", "variables"):
        assert f"\n== {part}\n" in text
    assert f"\nkernel: Linux {os.uname().release}" in text


def test_report_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "report.txt"
    result = CliRunner().invoke(app, ["doctor", "--report", str(path)], env={"COLUMNS": "300"})
    assert result.exit_code == 2
    assert f"cannot write {path}: No such file or directory" in result.output
