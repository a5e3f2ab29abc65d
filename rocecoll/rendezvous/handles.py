# SPDX-License-Identifier: Apache-2.0
"""Members of a group that is made from handles instead of a meeting in the Store.

A handle is the text of a rank's record, with no rank in it yet. Every member gets the same handles, by
whatever way, and comes to the same ranks, or to the same error, by itself.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, replace
from typing import Any

from rocecoll.rendezvous import RendezvousError
from rocecoll.rendezvous.records import PROTOCOL, Record, check, to_text

LONGEST_HANDLE = 1 << 16  # characters: a record has some hundred, and a reason of at most 600
_TYPES = {"str": str, "int": int, "dict[str, str]": dict}


@dataclass(frozen=True)
class Members:
    """The records of a group, by rank, and the number that its members gave this attempt."""

    uuid: int
    records: tuple[Record, ...]

    def of(self, ranks: Sequence[int]) -> tuple[Record, ...]:
        """The records of a group of some of these ranks, in its order."""
        return tuple(
            replace(self.records[one], rank=rank, ranks=len(ranks))
            for rank, one in enumerate(ranks)
        )


def to_handle(own: Record) -> str:
    """The same text as long as the process has the same runtime."""
    return to_text(replace(own, rank=0, ranks=0, nonce=f"{own.process:016x}"))


def members(uuid: int, handles: Collection[str], process: int) -> tuple[Members, int]:
    """The members and the rank of the one with this process number.

    A list says which rank each has; ranks of a set are in the order of hosts, addresses and processes.
    Raises ValueError for handles that make no group, RendezvousError for ranks that do not fit together.
    """
    if not handles:
        raise ValueError("reconfigure: there are no handles, so no rank would be left")
    told = [_from_handle(handle, number) for number, handle in enumerate(handles)]
    if isinstance(handles, AbstractSet):
        told.sort(key=_place)
    numbers: dict[int, int] = {}
    for rank, one in enumerate(told):
        other = numbers.setdefault(one.process, rank)
        if other != rank:
            raise ValueError(
                f"reconfigure: handles {other} and {rank} are of the same process "
                f"({one.host_name}, {one.address}), which can be one rank of a group only"
            )
    if process not in numbers:
        raise ValueError(
            f"reconfigure: this process's own handle is not among the {len(told)} given; add "
            "what reconfigure_handle() returns here, now: a process that was started again has another"
        )
    records = [replace(one, rank=rank, ranks=len(told)) for rank, one in enumerate(told)]
    own = records[numbers[process]]
    check(records, own, f"reconfigure {uuid}")
    return Members(uuid, tuple(records)), own.rank


def _place(one: Record) -> tuple[Any, ...]:
    """Addresses of different families cannot be compared."""
    return one.host_id, one.host_name, one.host.version, one.host, one.port, one.process


def _from_handle(handle: str, number: int) -> Record:
    no_handle = f"reconfigure: handle {number} is not what reconfigure_handle() returned"
    if not isinstance(handle, str) or len(handle) > LONGEST_HANDLE:
        raise ValueError(no_handle)
    try:
        said = json.loads(handle)
        protocol, version = said["protocol"], said["version"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(no_handle) from error
    if protocol != PROTOCOL:
        raise RendezvousError(
            f"reconfigure: handle {number} is of version {version!s:.40} with protocol "
            f"{protocol!s:.40}, this rank has protocol {PROTOCOL}: use one version everywhere"
        )
    try:
        record = Record(**said)
        _check_types(record)
    except (ValueError, TypeError) as error:
        raise ValueError(f"reconfigure: handle {number} is damaged: {error!s:.80}") from error
    return record


def _check_types(record: Record) -> None:
    """Raises TypeError or ValueError with the name of a field, or what is in it."""
    for field in fields(Record):
        if type(getattr(record, field.name)) is not _TYPES[str(field.type)]:
            raise TypeError(field.name)
    if any(type(text) is not str for pair in record.options.items() for text in pair):
        raise TypeError("options")
    if not 0 < record.port < 1 << 16 or not 0 <= record.process < 1 << 64:
        raise ValueError(record.address)
    _ = record.host


def to_list(told: Members) -> str:
    """For the store of the group that they make, where from_list() finds them."""
    return json.dumps([told.uuid, [to_text(record) for record in told.records]])


def from_list(text: bytes) -> Members:
    uuid, records = json.loads(text)
    return Members(uuid, tuple(Record(**json.loads(record)) for record in records))
