# SPDX-License-Identifier: Apache-2.0
"""The ranks of a group tell each other where they are: one small record each, through the Store.

Every rank sets one key and reads all of them in one batch; the Store is never asked again.
"""

from __future__ import annotations

import functools
import hashlib
import ipaddress
import json
import secrets
import socket
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from rocecoll.interfaces import list_interfaces

PROTOCOL = 1  # of the records and of the wire: ranks with different numbers do not talk
_SHOWN = 16  # ranks or hosts listed in a message

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class Store(Protocol):
    """What is used of torch.distributed.Store (a protocol, as this module is tested without it)."""

    def set(self, key: str, value: str, /) -> None: ...
    def get(self, key: str, /) -> bytes: ...
    def add(self, key: str, amount: int, /) -> int: ...
    def check(self, keys: list[str], /) -> bool: ...
    def wait(self, keys: list[str], timeout: timedelta, /) -> None: ...
    def multi_get(self, keys: list[str], /) -> list[bytes]: ...
    def has_extended_api(self) -> bool: ...


class RendezvousError(RuntimeError):
    """The ranks of a group could not find each other, or do not fit together."""


@dataclass(frozen=True)
class Record:
    """`address` is "host:port" with the host that other machines are to use, `process` the random
    number by which the process behind it is told from one that has the address later.
    """

    rank: int
    ranks: int
    address: str
    process: int
    host_id: str
    host_name: str
    transport: str
    version: str
    nonce: str
    protocol: int = PROTOCOL

    @property
    def host(self) -> IpAddress:
        return ipaddress.ip_address(self.address.rpartition(":")[0].strip("[]"))

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def __str__(self) -> str:
        return f"rank {self.rank} ({self.host_name}, {self.address})"


@dataclass(frozen=True)
class Meeting:
    """What every rank knows afterwards. `key` is equal on all of them and never comes again."""

    records: tuple[Record, ...]
    addresses: tuple[str, ...]  # by rank, as this rank reaches them
    hosts: tuple[int, ...]  # by rank: equal numbers for ranks that share a host
    key: bytes


@functools.cache
def host_id() -> str:
    """Equal for two processes if they reach each other over loopback.

    Clones of a running virtual machine have it in common, too.
    """
    facts = [socket.gethostname()]
    for source in ("/proc/sys/kernel/random/boot_id", "/etc/machine-id"):
        path = Path(source)
        if path.exists():
            facts.append(path.read_text().strip())
            break
    network = Path("/proc/self/ns/net")
    if network.exists():
        facts.append(str(network.stat().st_ino))
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]


def make_record(
    rank: int, ranks: int, address: str, process: int, transport: str, version: str
) -> Record:
    return Record(
        rank=rank,
        ranks=ranks,
        address=address,
        process=process,
        host_id=host_id(),
        host_name=socket.gethostname(),
        transport=transport,
        version=version,
        nonce=secrets.token_hex(8),
    )


def meet(store: Store, own: Record, group_name: str, timeout: timedelta) -> Meeting:
    """Exchanges records, waiting for the others at most `timeout`."""
    # A group of the same name may be made again in the same Store: each rank counts its turns.
    turn = store.add(f"rocecoll/turns/{own.rank}", 1)
    keys = [f"rocecoll/{turn}/{rank}" for rank in range(own.ranks)]
    store.set(keys[own.rank], json.dumps(asdict(own)))
    values = _wait_for(store, keys, own, group_name, timeout)
    records = tuple(_parse(value, rank) for rank, value in enumerate(values))
    _check(records, own, group_name)
    digest = hashlib.sha256(group_name.encode())
    for value in values:
        digest.update(hashlib.sha256(value).digest())
    addresses = tuple(_reach(own, record) for record in records)
    numbers = {
        host: number for number, host in enumerate(dict.fromkeys(r.host_id for r in records))
    }
    hosts = tuple(numbers[record.host_id] for record in records)
    return Meeting(records, addresses, hosts, digest.digest()[:16])


def _wait_for(
    store: Store, keys: list[str], own: Record, group_name: str, timeout: timedelta
) -> list[bytes]:
    started = time.monotonic()
    try:
        store.wait(keys, timeout)
        if store.has_extended_api():
            return list(store.multi_get(keys))
        return [store.get(key) for key in keys]
    except RuntimeError as error:
        waited = time.monotonic() - started
        missing = [rank for rank, key in enumerate(keys) if not _is_set(store, key)]
        if not missing:
            raise
        raise RendezvousError(
            f"rocecoll: group {group_name!r}: rank {own.rank} waited {waited:.1f} s for "
            f"{_list_ranks(missing)} of {own.ranks} to give their addresses; they did not start, "
            "ended, or use another store"
        ) from error


def _is_set(store: Store, key: str) -> bool:
    try:
        return store.check([key])
    except RuntimeError:  # the store itself is gone; say so instead of naming ranks
        return True


def _list_ranks(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:_SHOWN]))
    more = f" and {len(ranks) - _SHOWN} more" if len(ranks) > _SHOWN else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}"


def _parse(value: bytes, rank: int) -> Record:
    try:
        fields: dict[str, Any] = json.loads(value)
        if fields["protocol"] != PROTOCOL:
            raise RendezvousError(
                f"rocecoll: rank {rank} runs version {fields.get('version')} with protocol "
                f"{fields['protocol']}, this rank protocol {PROTOCOL}: use one version everywhere"
            )
        record = Record(**fields)
        _ = record.host, record.port
    except (ValueError, TypeError, KeyError) as error:
        raise RendezvousError(f"rocecoll: rank {rank} left an unreadable record") from error
    return record


def _check(records: Sequence[Record], own: Record, group_name: str) -> None:
    prefix = f"rocecoll: group {group_name!r}:"
    for rank, record in enumerate(records):
        if record.rank != rank or record.ranks != own.ranks:
            raise RendezvousError(
                f"{prefix} {record} believes to be rank {record.rank} of {record.ranks}, rank "
                f"{own.rank} expects rank {rank} of {own.ranks}"
            )
        for what, theirs, ours, cure in (
            ("version", record.version, own.version, "install one version everywhere"),
            (
                "transport",
                record.transport,
                own.transport,
                "set ROCECOLL_TRANSPORT alike on all ranks, and ROCECOLL_SHM and ROCECOLL_FAULT; auto "
                "uses RoCE where a pair of ranks has it",
            ),
        ):
            if theirs != ours:
                raise RendezvousError(
                    f"{prefix} {record} uses {what} {theirs}, {own} uses {ours}: {cure}"
                )
    _check_hosts(records, prefix)


def _check_hosts(records: Sequence[Record], prefix: str) -> None:
    """Every rank can be reached from every other host, as far as addresses can tell."""
    hosts = {record.host_id: record for record in reversed(records)}  # its lowest rank
    if len(hosts) == 1:
        return
    for record in records:
        other = next(first for host, first in hosts.items() if host != record.host_id)
        if record.host.is_loopback:
            raise RendezvousError(
                f"{prefix} {record} offers a loopback address, which {other} on another host "
                "cannot reach; name an interface with ROCECOLL_SOCKET_IFNAME"
            )
        if other.host.version != record.host.version:
            raise RendezvousError(
                f"{prefix} {record} and {other} use different address families; set "
                "ROCECOLL_SOCKET_FAMILY or ROCECOLL_SOCKET_IFNAME alike"
            )


def summary(meeting: Meeting, group_name: str) -> str:
    """Who shares a host with whom, and what the ranks may use: one line about a group."""
    on_host: dict[int, list[Record]] = {}
    for host, record in zip(meeting.hosts, meeting.records, strict=True):
        on_host.setdefault(host, []).append(record)
    shown = [
        f"{records[0].host_name} has {_spans([record.rank for record in records])}"
        for records in list(on_host.values())[:_SHOWN]
    ]
    more = f" and {len(on_host) - _SHOWN} more" if len(on_host) > _SHOWN else ""
    count = len(meeting.records)
    return (
        f"rocecoll: group {group_name!r}: {count} rank{'s' if count > 1 else ''} on {len(on_host)} "
        f"host{'s' if len(on_host) > 1 else ''} ({meeting.records[0].transport}): "
        f"{', '.join(shown)}{more}"
    )


def _spans(ranks: Sequence[int]) -> str:
    """Ranks in order: 0-3 5 8-9, the first so many spans."""
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and spans[-1][1] == rank - 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    texts = [f"{first}-{last}" if first < last else f"{first}" for first, last in spans]
    return " ".join(texts[:_SHOWN]) + (" ..." if len(texts) > _SHOWN else "")


def local_addresses() -> frozenset[IpAddress]:
    return frozenset(interface.address for interface in list_interfaces())


def _on_this_host(own: Record, peer: Record) -> bool:
    """Whoever has this host's id, and an address of this host: a clone has another one."""
    if peer.host_id != own.host_id:
        return False
    return peer.host == own.host or peer.host in local_addresses()


def _reach(own: Record, peer: Record) -> str:
    """Ranks on one host use loopback, which works whatever firewalls stand on its interfaces."""
    if not _on_this_host(own, peer):
        return peer.address
    loopback = "127.0.0.1" if peer.host.version == 4 else "[::1]"
    return f"{loopback}:{peer.port}"
