# SPDX-License-Identifier: Apache-2.0
"""The network interfaces and RDMA ports of this machine, and which of them rocecoll would use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rocecoll import environment, options
from rocecoll.diagnosis.machine.network_interfaces import (
    UdpInterface,
    chosen_address,
    read_interfaces,
)
from rocecoll.diagnosis.machine.rdma_ports import (
    SYSFS,
    RdmaPort,
    Verdict,
    parse_verdicts,
    read_ports,
)


@dataclass(frozen=True)
class Devices:
    """`address` is empty, and `reason` says why, if no interface fits the settings.

    `remarks` are the core's remarks that are not about a single port.
    """

    interfaces: list[UdpInterface]
    address: str
    reason: str
    ports: list[RdmaPort]
    verdicts: list[Verdict]
    remarks: list[str]


def read_devices(settings: options.Settings, sysfs: Path = SYSFS) -> Devices:
    from rocecoll import _core  # a tree that was not built has none, and says so itself

    try:
        choice = chosen_address(settings)
        address, reason = choice.address, choice.reason
    except ValueError as error:
        address, reason = "", str(error)
    described = _core.describe_devices(
        options.runtime_settings(settings, address, environment.local_ranks() or 1)
    )
    verdicts, remarks = parse_verdicts(described)
    return Devices(read_interfaces(), address, reason, read_ports(sysfs), verdicts, remarks)
