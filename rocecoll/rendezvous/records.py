# SPDX-License-Identifier: Apache-2.0
"""What each rank of a group tells the others about itself, and whether all of it fits together.

All ranks judge the same records by the same rules, so they come to the same verdict.
"""

from __future__ import annotations

import functools
import hashlib
import ipaddress
import json
import secrets
import socket
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocecoll import options
from rocecoll.rendezvous import RendezvousError

PROTOCOL = 1  # of the records and of the wire: ranks with different numbers do not talk
SHOWN = 16  # ranks, spans of ranks or hosts listed in a message
_VALUES_SHOWN = 4  # of one option
_REASON_CHARACTERS = 600

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class Record:
    """`address` is "host:port" with the host that other machines are to use, `process` the random
    number by which the process behind it is told from one that has the address later. `options`
    are the texts of those that all ranks must have alike. `roce_port` is the port that it has
    opened for RoCE, else `roce_problem` says why none.
    """

    rank: int
    ranks: int
    address: str
    process: int
    host_id: str
    network_id: str
    host_name: str
    options: dict[str, str]
    version: str
    nonce: str
    roce_port: str
    roce_problem: str
    protocol: int = PROTOCOL

    @property
    def host(self) -> IpAddress:
        return _host_of(self.address)

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def __str__(self) -> str:
        return f"rank {self.rank} ({self.host_name}, {self.address})"


# Remembered, because every rank asks this of every other more than once whenever a group is made.
@functools.lru_cache(maxsize=4096)
def _host_of(address: str) -> IpAddress:
    return ipaddress.ip_address(address.rpartition(":")[0].strip("[]"))


@dataclass(frozen=True)
class Failure:
    """What a rank leaves instead of its Record if it could not start."""

    rank: int
    host_name: str
    reason: str
    protocol: int = PROTOCOL

    def __str__(self) -> str:
        return f"rank {self.rank} ({self.host_name}) could not start: {self.reason}"


@functools.cache
def network_id() -> str:
    """Equal for two processes of one network namespace, to which an address means the same."""
    facts = []
    for source in ("/proc/sys/kernel/random/boot_id", "/etc/machine-id"):
        path = Path(source)
        if path.exists():
            facts.append(path.read_text().strip())
            break
    network = Path("/proc/self/ns/net")
    if network.exists():
        facts.append(str(network.stat().st_ino))
    return _digest(facts)


@functools.cache
def host_id() -> str:
    """Equal for two processes if they reach each other over loopback.

    Clones of a running virtual machine share it, too.
    """
    return _digest([socket.gethostname(), network_id()])


def _digest(facts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]


def make_record(
    rank: int,
    ranks: int,
    address: str,
    process: int,
    agreed: Mapping[str, str],
    version: str,
    roce_port: str = "",
    roce_problem: str = "",
) -> Record:
    return Record(
        rank=rank,
        ranks=ranks,
        address=address,
        process=process,
        host_id=host_id(),
        network_id=network_id(),
        host_name=socket.gethostname(),
        options=dict(agreed),
        version=version,
        nonce=secrets.token_hex(8),
        roce_port=roce_port,
        roce_problem=_in_one_line(roce_problem),
    )


def make_failure(rank: int, error: Exception) -> Failure:
    """The first words of `error`, in one line."""
    words = _in_one_line(str(error)) or type(error).__name__
    return Failure(rank, socket.gethostname(), words)


def _in_one_line(text: str) -> str:
    words = " ".join(text.split())
    return words[:_REASON_CHARACTERS] + " ..." if len(words) > _REASON_CHARACTERS else words


def to_text(told: Record | Failure) -> str:
    return json.dumps(vars(told))


def from_text(value: bytes, rank: int) -> Record | Failure:
    """Raises RendezvousError for text that no rank of this version writes."""
    try:
        fields: dict[str, Any] = json.loads(value)
        if fields["protocol"] != PROTOCOL:
            raise RendezvousError(
                f"rank {rank} runs version {fields.get('version')} with protocol "
                f"{fields['protocol']}, this rank protocol {PROTOCOL}: use one version everywhere"
            )
        if "reason" in fields:
            return Failure(**fields)
        record = Record(**fields)
        _ = record.host, record.port
    except (ValueError, TypeError, KeyError) as error:
        raise RendezvousError(
            f"rank {rank} left an unreadable record: install one version of rocecoll everywhere"
        ) from error
    return record


def check(records: Sequence[Record], own: Record, group_name: str) -> None:
    """Raises RendezvousError unless `records`, in the order of ranks, make a group."""
    prefix = f"group {group_name!r}:"
    for rank, record in enumerate(records):
        if record.rank != rank or record.ranks != own.ranks:
            raise RendezvousError(
                f"{prefix} {record} believes to be rank {record.rank} of {record.ranks}, rank "
                f"{own.rank} expects rank {rank} of {own.ranks}"
            )
    if differs := _difference(records, [record.version for record in records]):
        raise RendezvousError(
            f"{prefix} the version of rocecoll is {differs}: install one version everywhere"
        )
    _check_options(records, prefix)
    _check_hosts(records, prefix)


def _check_options(records: Sequence[Record], prefix: str) -> None:
    differing = {
        name: text
        for name in records[0].options
        if (text := _difference(records, [record.options.get(name) for record in records]))
    }
    if differing:
        told = "; ".join(f"{options.variable(name)} is {text}" for name, text in differing.items())
        raise RendezvousError(f"{prefix} {told}. {options.how_to_agree(list(differing))}")


def _difference(records: Sequence[Record], values: Sequence[str | None]) -> str:
    """Which of the ranks have which value; nothing where all have the same."""
    having: dict[str | None, list[Record]] = {}
    for record, value in zip(records, values, strict=True):
        having.setdefault(value, []).append(record)
    if len(having) == 1:
        return ""
    shown = [f"{value!r} on {_who(some)}" for value, some in list(having.items())[:_VALUES_SHOWN]]
    more = len(having) - len(shown)
    return ", ".join(shown) + (f" and {more} more values" if more > 0 else "")


def _who(records: Sequence[Record]) -> str:
    if len(records) == 1:
        return str(records[0])
    hosts = list(dict.fromkeys(record.host_name for record in records))
    more = f" and {len(hosts) - _VALUES_SHOWN} more" if len(hosts) > _VALUES_SHOWN else ""
    return (
        f"ranks {spans([record.rank for record in records])} "
        f"({', '.join(hosts[:_VALUES_SHOWN])}{more})"
    )


def _check_hosts(records: Sequence[Record], prefix: str) -> None:
    """Raises RendezvousError if addresses show that a rank cannot be reached from another one."""
    first = records[0]
    for record in records:
        if record.host.version != first.host.version:  # not on one host either: each has one socket
            raise RendezvousError(
                f"{prefix} {first} and {record} use different address families; set "
                "ROCECOLL_SOCKET_FAMILY or ROCECOLL_SOCKET_IFNAME alike"
            )
    hosts = {record.host_id: record for record in reversed(records)}  # its lowest rank
    if len(hosts) == 1:
        return
    at: dict[IpAddress, Record] = {}
    for record in records:
        other = next(first for host, first in hosts.items() if host != record.host_id)
        if record.host.is_loopback:
            raise RendezvousError(
                f"{prefix} {record} offers a loopback address, which {other} on another host "
                "cannot reach; name an interface with ROCECOLL_SOCKET_IFNAME"
            )
        same = at.setdefault(record.host, record)
        if same.network_id != record.network_id:
            raise RendezvousError(
                f"{prefix} {same} and {record} are on different hosts that offer the same address "
                f"{record.host}, as that of a bridge for containers or virtual machines, which "
                "each host has for itself: on all ranks, name the interface or the network that "
                "joins the hosts, e.g. ROCECOLL_SOCKET_IFNAME=eth0 or 10.0.0.0/8"
            )


def roce_ranks(records: Sequence[Record], share_memory: bool) -> list[bool]:
    """By rank: whether it has RoCE, and so has another rank with which it shares no memory."""
    hosts = {_place(record, share_memory) for record in records if record.roce_port}
    return [bool(record.roce_port) and len(hosts) > 1 for record in records]


def roce_summary(records: Sequence[Record], share_memory: bool) -> str:
    """How many pairs of ranks may use RoCE, and which ranks have none and why; empty if none has."""
    usable = roce_ranks(records, share_memory)
    if not any(usable):
        return ""
    having = [record for record, can in zip(records, usable, strict=True) if can]
    count, pairs = _pairs(having, share_memory), _pairs(records, share_memory)
    told = f"RoCE for {count} of {pairs} pairs" + (" between hosts" if share_memory else "")
    without: dict[str, list[int]] = {}
    for record in records:
        if not record.roce_port:
            without.setdefault(record.roce_problem, []).append(record.rank)
    for problem, ranks in list(without.items())[:_VALUES_SHOWN]:
        told += f"; rank{'s' if len(ranks) > 1 else ''} {spans(ranks)} on UDP: {problem}"
    more = len(without) - _VALUES_SHOWN
    return told + (f"; and {more} more reasons" if more > 0 else "")


def _place(record: Record, share_memory: bool) -> str:
    """Ranks with different places talk over the network."""
    return record.host_id if share_memory else record.nonce


def _pairs(records: Sequence[Record], share_memory: bool) -> int:
    """How many pairs of ranks talk over the network."""
    together = Counter(_place(record, share_memory) for record in records)
    return (len(records) ** 2 - sum(count**2 for count in together.values())) // 2


def list_ranks(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:SHOWN]))
    more = f" and {len(ranks) - SHOWN} more" if len(ranks) > SHOWN else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}"


def spans(ranks: Iterable[int]) -> str:
    """Ranks in order, such as 0-3 5 8-9; at most the first SHOWN spans."""
    found: list[list[int]] = []
    for rank in ranks:
        if found and found[-1][1] == rank - 1:
            found[-1][1] = rank
        else:
            found.append([rank, rank])
    texts = [f"{first}-{last}" if first < last else f"{first}" for first, last in found]
    return " ".join(texts[:SHOWN]) + (" ..." if len(texts) > SHOWN else "")
