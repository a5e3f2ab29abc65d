# SPDX-License-Identifier: Apache-2.0
"""RDMA devices as sysfs shows them, so without libibverbs, and which of them rocecoll chooses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rocecoll.host.port_counters import netdev_of, read_counters

SYSFS = Path("/sys/class")
# A line of _core.describe_devices() about a port: what would be used, or why it is not usable.
_CORE_LINE = re.compile(
    r"(?P<device>\S+) port (?P<port>\d+)"
    r"(?:, GID (?P<gid>\d+) \((?P<address>[^,]+),.*\), MTU (?P<mtu>\d+))?: (?P<verdict>.+)"
)


@dataclass(frozen=True)
class Gid:
    """An entry of a port's GID table that is in use."""

    index: int
    gid: str
    version: str  # "RoCE v1", "RoCE v2"; empty where the kernel does not tell
    ipv4: str
    netdev: str


@dataclass(frozen=True)
class RdmaPort:
    device: str
    port: int
    link_layer: str
    state: str
    speed: str
    netdev: str
    netdev_mtu_bytes: int | None
    numa_node: int | None
    gids: tuple[Gid, ...]
    counters: dict[str, int]  # of read_counters()

    @property
    def name(self) -> str:
        return f"{self.device} port {self.port}"


@dataclass(frozen=True)
class Verdict:
    """rocecoll's verdict on a port: "chosen" or "usable", and for which ranks, or why neither."""

    device: str
    port: int
    gid_index: int | None
    gid_address: str | None
    rdma_mtu_bytes: int | None
    text: str

    @property
    def chosen(self) -> bool:
        return self.text.partition(":")[0] == "chosen"


def read_ports(sysfs: Path = SYSFS) -> list[RdmaPort]:
    return [
        _read_port(device, port, sysfs)
        for device in sorted((sysfs / "infiniband").glob("*"))
        for port in sorted((device / "ports").glob("*"), key=lambda path: int(path.name))
    ]


def parse_verdicts(description: str) -> tuple[list[Verdict], list[str]]:
    """The verdicts on single ports, and what else _core.describe_devices() says."""
    verdicts, others = [], []
    for line in description.splitlines():
        match = _CORE_LINE.fullmatch(line)
        if match is None:
            others.append(line)
            continue
        verdicts.append(
            Verdict(
                device=match["device"],
                port=int(match["port"]),
                gid_index=int(match["gid"]) if match["gid"] else None,
                gid_address=match["address"],
                rdma_mtu_bytes=int(match["mtu"]) if match["mtu"] else None,
                text=match["verdict"],
            )
        )
    return verdicts, others


def verdict_on(port: RdmaPort, verdicts: Sequence[Verdict]) -> Verdict | None:
    for verdict in verdicts:
        if (verdict.device, verdict.port) == (port.device, port.port):
            return verdict
    return None


def _read_port(device: Path, port: Path, sysfs: Path) -> RdmaPort:
    gids = tuple(_read_gids(port))
    netdev = netdev_of(port)
    return RdmaPort(
        device=device.name,
        port=int(port.name),
        link_layer=_text(port / "link_layer"),
        state=_text(port / "state").partition(": ")[2],  # "4: ACTIVE"
        speed=_text(port / "rate"),
        netdev=netdev,
        netdev_mtu_bytes=_number(sysfs / "net" / netdev / "mtu") if netdev else None,
        numa_node=_number(device / "device" / "numa_node"),  # -1 where there is only one
        gids=gids,
        counters=read_counters(port),
    )


def _read_gids(port: Path) -> Iterator[Gid]:
    entries = (port / "gids").glob("*")
    for entry in sorted(entries, key=lambda path: int(path.name)):
        text = _text(entry)
        if not text or int(address := ipaddress.IPv6Address(text)) == 0:
            continue
        attributes = port / "gid_attrs"
        ipv4 = address.ipv4_mapped
        yield Gid(
            index=int(entry.name),
            gid=f"::ffff:{ipv4}" if ipv4 else address.compressed,
            version=_text(attributes / "types" / entry.name).removeprefix("IB/"),
            ipv4=str(ipv4 or ""),
            netdev=_text(attributes / "ndevs" / entry.name),
        )


def _text(path: Path) -> str:
    """Empty if there is no such file or it cannot be read, as for attributes of unused GIDs."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    """The number in a file; numbers are not negative."""
    text = _text(path)
    return int(text) if text.isdigit() else None
