# SPDX-License-Identifier: Apache-2.0
"""Whether RoCE can be used: what the core says of each port, and what stands in the way."""

from __future__ import annotations

import resource
from dataclasses import replace
from pathlib import Path

from rocecoll import options
from rocecoll.diagnosis.finding import Finding, Level, in_units
from rocecoll.diagnosis.machine.devices import Devices, read_devices
from rocecoll.diagnosis.machine.rdma_ports import RdmaPort, Verdict, verdict_on
from rocecoll.host.port_counters import Sign, signs, spell

# Pools and scratch of a process over rc; tensors in flight come on top (docs/roce.md).
LOCKED_BYTES = 256 << 20
_CAP_IPC_LOCK = 14  # linux/capability.h
_CONTAINER = "docker run --device /dev/infiniband --ulimit memlock=-1 --network host ..."


def check_rdma(settings: options.Settings) -> list[Finding]:
    devices = read_devices(settings)
    findings = judge_ports(devices, needs_port(settings), Path("/dev/infiniband").exists())
    findings += judge_counters(devices)
    if devices.ports:
        findings.append(judge_locked_memory(locked_memory_limit()))
    return findings


def needs_port(settings: options.Settings) -> bool:
    """Whether the transport refuses to work without a port."""
    return settings["transport"] in ("rc", "ud")


def judge_ports(devices: Devices, needed: bool, character_devices: bool) -> list[Finding]:
    said = "; ".join(devices.remarks)
    if needed:
        text = "the transport that is set needs a port, and none can be used"
        lack = Finding("RDMA", Level.PROBLEM, text, "export ROCECOLL_TRANSPORT=auto")
    else:
        lack = Finding("RDMA", Level.NOTE, "no port can be used; UDP and shared memory carry all")
    if said:
        lack = replace(lack, text=f"{lack.text}: {said}")
    if not devices.ports and not devices.verdicts:
        return [lack]
    findings = []
    for port in devices.ports:
        findings.append(_judge_port(port, verdict_on(port, devices.verdicts), character_devices))
    if not any(verdict.chosen for verdict in devices.verdicts):
        findings.append(lack)
    return findings


def _judge_port(port: RdmaPort, verdict: Verdict | None, character_devices: bool) -> Finding:
    name = port.name
    if verdict is None:
        if not character_devices:
            text = f"{name} is in the machine, but /dev/infiniband is not in this container"
            return Finding("RDMA", Level.WARNING, text, _CONTAINER)
        text = f"{name} is in the machine, but libibverbs does not open it"
        return Finding("RDMA", Level.WARNING, text, "sudo apt-get install ibverbs-providers")
    if verdict.rdma_mtu_bytes is not None:
        text = f"{name}, GID {verdict.gid_index}, MTU {verdict.rdma_mtu_bytes}: {verdict.text}"
        return Finding("RDMA", Level.OK, text)
    cure = ""
    if port.state != "ACTIVE" and port.netdev:
        cure = f"sudo ip link set {port.netdev} up"
    return Finding("RDMA", Level.NOTE, f"{name} {verdict.text}", cure)


def judge_counters(devices: Devices) -> list[Finding]:
    """Counters of the chosen ports. They may have counted long ago: a note, not a warning."""
    findings = []
    for port in devices.ports:
        verdict = verdict_on(port, devices.verdicts)
        if verdict is None or not verdict.chosen or not port.counters:
            continue
        counted = signs(port.counters)
        trouble = [sign for sign in counted if sign not in (Sign.MARKED, Sign.PAUSED)]
        if not trouble:
            text = f"{port.name} has counted no lost packets since its driver was loaded"
            findings.append(Finding("RoCE counters", Level.OK, text))
            continue
        listed = "; ".join(spell(sign, counted[sign]) for sign in trouble)
        text = (
            f"{port.name} has counted since its driver was loaded: {listed}; whether it grows, "
            "`rocecoll status --peers --watch 2` tells while a job runs"
        )
        findings.append(Finding("RoCE counters", Level.NOTE, text))
    return findings


def locked_memory_limit() -> int | None:
    """The limit in bytes; None: this process has none."""
    soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:  # this process's capabilities are not known
        status = "\nCapEff: 0"
    effective = int(status.partition("\nCapEff:")[2].split()[0], 16)
    return None if soft == resource.RLIM_INFINITY or effective >> _CAP_IPC_LOCK & 1 else soft


def judge_locked_memory(limit_bytes: int | None) -> Finding:
    if limit_bytes is None:
        return Finding("locked memory", Level.OK, "no limit")
    text = f"a process may lock {in_units(limit_bytes)}"
    if limit_bytes >= LOCKED_BYTES:
        return Finding("locked memory", Level.OK, text)
    text += f"; rc takes {in_units(LOCKED_BYTES)} and the tensors in flight"
    return Finding("locked memory", Level.WARNING, text, "ulimit -l unlimited")
