# SPDX-License-Identifier: Apache-2.0
"""All checks of one machine, in the order of their findings."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from rocecoll import options
from rocecoll.diagnosis.finding import Finding, Level
from rocecoll.diagnosis.machine.addresses import check_addresses
from rocecoll.diagnosis.machine.firewall import check_firewall
from rocecoll.diagnosis.machine.limits import check_container, check_open_files, check_processors
from rocecoll.diagnosis.machine.name_lookups import check_name_lookups
from rocecoll.diagnosis.machine.rdma import check_rdma
from rocecoll.diagnosis.machine.shared_memory import check_shared_memory
from rocecoll.diagnosis.machine.software import check_options, check_torch_version
from rocecoll.diagnosis.machine.udp_sockets import check_udp_sockets

Check = Callable[[options.Settings], list[Finding]]
CHECKS: dict[str, Check] = {
    "options": lambda settings: check_options(),
    "torch": lambda settings: check_torch_version(),
    "address": check_addresses,
    "name lookups": check_name_lookups,
    "UDP sockets": check_udp_sockets,
    "firewall": check_firewall,
    "shared memory": check_shared_memory,
    "RDMA": check_rdma,
    "open files": lambda settings: check_open_files(),
    "processors": lambda settings: check_processors(),
    "container": lambda settings: check_container(),
}


def examine(settings: options.Settings, checks: dict[str, Check] = CHECKS) -> list[Finding]:
    """Runs all checks; one that the machine does not allow becomes a finding of its own."""
    findings = []
    for subject, check in checks.items():
        try:
            findings += check(settings)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            text = f"could not be looked at: {type(error).__name__}: {error}"
            findings.append(Finding(subject, Level.WARNING, text))
    return findings
