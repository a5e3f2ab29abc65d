# SPDX-License-Identifier: Apache-2.0
"""One text for a bug report: findings, versions, machine, options, devices, variables."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

from rocecoll import environment, options
from rocecoll.diagnosis.finding import Finding, in_units
from rocecoll.diagnosis.machine.devices import read_devices
from rocecoll.diagnosis.machine.option_values import read_configuration
from rocecoll.diagnosis.machine.software import versions

CPUINFO = Path("/proc/cpuinfo")


def compose(findings: Sequence[Finding], settings: options.Settings) -> str:
    sections = {
        "findings": _finding_lines(findings),
        "versions": _pairs(versions()),
        "machine": _pairs(machine()),
        "options": _option_lines(),
        "devices": [json.dumps(asdict(read_devices(settings)), indent=1)],
        "variables": _pairs(environment.reported_variables(options.PREFIX)),
    }
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    parts = [f"rocecoll doctor --report, {now}"]
    parts += ["\n".join([f"== {title}", *lines]) for title, lines in sections.items()]
    return "\n\n".join(parts) + "\n"


def machine() -> dict[str, str]:
    facts = platform.uname()
    release = platform.freedesktop_os_release() if Path("/etc/os-release").exists() else {}
    return {
        "kernel": f"{facts.system} {facts.release} {facts.machine}",
        "system": release.get("PRETTY_NAME", "?"),
        "processor": processor_name(CPUINFO.read_text() if CPUINFO.exists() else ""),
        "processors": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} can be used",
        "memory": in_units(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
    }


def processor_name(cpuinfo: str) -> str:
    """The model name in /proc/cpuinfo, or "?": ARM's has none."""
    named = (line.partition(": ") for line in cpuinfo.splitlines())
    return next((value for key, _, value in named if key.startswith("model name")), "?")


def _finding_lines(findings: Sequence[Finding]) -> list[str]:
    lines = []
    for finding in findings:
        lines.append(f"{finding.level.value}: {finding.subject}: {finding.text}")
        if finding.cure:
            lines.append(f"    $ {finding.cure}")
    return lines


def _option_lines() -> list[str]:
    return [
        f"{option.variable}={options.value_text(option.value)}  ({option.origin or 'default'})"
        for option in read_configuration().options
    ]


def _pairs(facts: Mapping[str, str]) -> list[str]:
    return [f"{name}: {value}" for name, value in facts.items()]
