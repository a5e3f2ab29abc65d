# SPDX-License-Identifier: Apache-2.0
"""The ranks of a group tell each other where they are: one small record each, through the Store.

Every rank sets one key, polls until all keys are there, and reads them in one batch. It polls, as
the Store's own wait cannot be interrupted by a signal and makes all other clients wait. If nothing
goes wrong, the Store is not used again.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from rocecoll.host.interfaces import list_interfaces
from rocecoll.rendezvous import RendezvousError
from rocecoll.rendezvous.forming import Forming, forming
from rocecoll.rendezvous.records import (
    SHOWN,
    Failure,
    IpAddress,
    Record,
    check,
    from_text,
    list_ranks,
    make_failure,
    spans,
    to_text,
)

# The most time that a rank that gives up spends on telling the others: some may never come, and the
# Store may be unreachable.
_LEAVE_LIMIT_S = 3.0
_STORE_LIMIT_S = 5.0
_LOOK_INTERVAL_S = 0.05
_SHORTEST_LOOK_S = 0.0002
_ANSWER_S = 0.0002  # the Store answers one question in less


class Store(Protocol):
    """The methods of torch.distributed.Store that are used (a protocol: tests have other stores)."""

    def set(self, key: str, value: str, /) -> None: ...
    def get(self, key: str, /) -> bytes: ...
    def add(self, key: str, amount: int, /) -> int: ...
    def check(self, keys: list[str], /) -> bool: ...
    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes: ...
    def multi_get(self, keys: list[str], /) -> list[bytes]: ...
    def has_extended_api(self) -> bool: ...


@dataclass(frozen=True)
class Meeting:
    """What every rank knows afterwards. `key` is the same on all ranks and is never used again."""

    records: tuple[Record, ...]
    addresses: tuple[str, ...]  # by rank, as this rank reaches them
    hosts: tuple[int, ...]  # by rank: equal numbers for ranks that share a host
    key: bytes


@dataclass(frozen=True)
class _Turn:
    """The keys of one meeting. A group of the same name may be made again in the same Store, so
    each rank counts its turns.
    """

    store: Store
    number: int
    ranks: int

    @classmethod
    def next(cls, store: Store, rank: int, ranks: int) -> _Turn:
        return cls(store, store.add(f"rocecoll/turns/{rank}", 1), ranks)

    def key(self, what: object) -> str:
        return f"rocecoll/{self.number}/{what}"

    @property
    def records(self) -> list[str]:
        return [self.key(rank) for rank in range(self.ranks)]

    def stand_in(self, rank: int, failure: str) -> None:
        """Leaves `failure` for this rank and all missing ones, so that nobody waits for them."""
        self.store.set(self.key(rank), failure)
        for key in self.records:
            self.store.compare_set(key, "", failure)

    def leave(self, rank: int) -> None:
        """On rank 0, waits until all ranks know the verdict: the Store may end with its process."""
        all_know = self.key("all_know")
        if self.store.add(self.key("knowing"), 1) == self.ranks:
            self.store.set(all_know, "")
        deadline = time.monotonic() + _LEAVE_LIMIT_S
        # Polls, because torch logs a warning when a wait() reaches its timeout.
        while rank == 0 and not self.store.check([all_know]) and time.monotonic() < deadline:
            time.sleep(_LOOK_INTERVAL_S)


def store_of_members(group: Any) -> Any:
    """The part of the Store that belongs to the members of a group (torch's _DistributedBackendOptions).

    Groups of different ranks may have the same name, and so the same Store: from torch 2.14 on the name
    is the number of groups that a rank has made, which differs between ranks after
    new_group(use_local_synchronization=True).
    """
    from torch._C._distributed_c10d import PrefixStore

    ranks = sorted(group.global_ranks_in_group)
    if not ranks:
        return group.store
    digest = hashlib.sha256(" ".join(map(str, ranks)).encode()).hexdigest()[:16]
    return PrefixStore(f"ranks {digest}", group.store)


def meet(
    store: Store,
    own: Record,
    group_name: str,
    timeout: timedelta,
    global_ranks: Sequence[int] = (),
) -> Meeting:
    """Exchanges records; waits up to `timeout` for the others. `global_ranks`: of the members."""
    turn = _Turn.next(store, own.rank, own.ranks)
    store.set(turn.key(own.rank), to_text(own))
    try:
        with forming(group_name, own.rank, global_ranks or range(own.ranks)) as group:
            values = _values(turn, group, timeout)
    except RendezvousError:  # a rank that comes later would find this one's record, and wait for it
        limit = f"a timeout of {timeout.total_seconds():g} s"
        _briefly(lambda: store.set(turn.key(own.rank), _end_of_wait(own, limit)))
        raise
    except BaseException as ended:  # raised by a signal handler: nobody should wait for this rank
        why = type(ended).__name__
        _briefly(lambda: turn.stand_in(own.rank, _end_of_wait(own, why)))
        raise
    try:
        records = _fitting(values, group_name)
        check(records, own, group_name)
    except RendezvousError:  # of every rank
        _briefly(lambda: turn.leave(own.rank))
        raise
    return met(records, own, group_name, values)


def _end_of_wait(own: Record, what: str) -> str:
    """What this rank leaves in place of its record."""
    return to_text(make_failure(own.rank, RuntimeError(f"its wait ended by {what}")))


def met(
    records: tuple[Record, ...], own: Record, group_name: str, told: Sequence[bytes]
) -> Meeting:
    """The meeting of ranks with these records, which fit together. `told`: what makes its key."""
    digest = hashlib.sha256(group_name.encode())
    for value in told:
        digest.update(hashlib.sha256(value).digest())
    addresses = tuple(_reach(own, record) for record in records)
    numbers = {
        host: number for number, host in enumerate(dict.fromkeys(r.host_id for r in records))
    }
    hosts = tuple(numbers[record.host_id] for record in records)
    return Meeting(records, addresses, hosts, digest.digest()[:16])


def tell_failure(store: Store, rank: int, ranks: int, error: Exception) -> None:
    """Called in place of meet() by a rank that could not start, so that nobody waits for it.

    It also leaves its failure for all missing ranks, which may never come once it has ended.
    """
    told = to_text(make_failure(rank, error))

    def tell() -> None:
        turn = _Turn.next(store, rank, ranks)
        turn.stand_in(rank, told)
        turn.leave(rank)

    _briefly(tell)


def _briefly(action: Callable[[], None]) -> None:
    """Informs the others before this rank raises its own error, without waiting long for the Store.

    Errors of `action` are dropped: the rank's own error matters more.
    """

    def attempt() -> None:
        try:
            action()
        except RuntimeError:  # the Store is gone
            return

    thread = threading.Thread(target=attempt, name="rocecoll_farewell", daemon=True)
    thread.start()
    thread.join(_STORE_LIMIT_S)


def root_of(store: Any) -> Any:
    """The Store below all prefixes."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return store


def come(store: Any, rank: int) -> None:
    """Tells rank 0, which serves the Store, that this rank has reached it."""
    root_of(store).set(_come_key(rank), "")


def _come_key(rank: int) -> str:
    return f"rocecoll/come/{rank}"


def wait_until_come(store: Store, group: Forming, timeout: timedelta) -> None:
    """Until every rank of the world has called come()."""
    with _of_store(group):
        _wait_for(store, [_come_key(rank) for rank in group.ranks], group, timeout)


def _values(turn: _Turn, group: Forming, timeout: timedelta) -> list[bytes]:
    """What all ranks have written, once all have."""
    store, keys = turn.store, turn.records
    with _of_store(group):
        _wait_for(store, keys, group, timeout)
        if store.has_extended_api():
            return list(store.multi_get(keys))
        return [store.get(key) for key in keys]


@contextmanager
def _of_store(group: Forming) -> Iterator[None]:
    """Turns an error of the Store into one that says that the Store is lost."""
    try:
        yield
    except RendezvousError:
        raise
    except RuntimeError as error:
        raise RendezvousError(
            f"{group.prefix} lost the Store while it waited for the other ranks: the process that "
            "serves it, rank 0 or the launcher, has ended or cannot be reached; look at its output "
            "first"
        ) from error


def _wait_for(store: Store, keys: list[str], group: Forming, timeout: timedelta) -> None:
    """Returns when all keys exist, one for each rank."""
    known = 0
    while (known := _count_come(store, keys, known)) < len(keys):
        now = time.monotonic()
        waited_s, limit_s = now - group.started, timeout.total_seconds()
        if waited_s >= limit_s:
            missing = group.spell(_missing(store, keys, known))
            raise RendezvousError(
                f"{group.prefix} waited {waited_s:.1f} s for {list_ranks(missing)} ({len(missing)} "
                f"of {len(keys)}) to give their addresses; they did not start, ended, or use another "
                "store"
            )
        if group.is_due(now):
            group.miss(_missing(store, keys, known), now)
        time.sleep(min(look_interval_s(waited_s, len(keys)), limit_s - waited_s))


def look_interval_s(waited_s: float, ranks: int) -> float:
    """An eighth of the time waited so far, so that polling hardly lengthens the wait.

    At least the time that the Store needs to answer all ranks, which poll at the same rate.
    """
    longest_s = max(_LOOK_INTERVAL_S, ranks * _ANSWER_S)
    return min(max(_SHORTEST_LOOK_S, ranks * _ANSWER_S / 8, waited_s / 8), longest_s)


def _count_come(store: Store, keys: list[str], come: int) -> int:
    """How many keys exist before the first missing one; the first `come` are known to exist.

    While the same key is missing, this asks about that one alone, however many keys there are.
    """
    step, grows = 1, True
    while step > 0 and come < len(keys):
        if store.check(keys[come : come + step]):
            come = min(come + step, len(keys))
        else:
            grows = False
        step = step * 2 if grows else step // 2
    return come


def _missing(store: Store, keys: list[str], first: int) -> list[int]:
    """The indices of missing keys, by bisection: either few are missing, or few ranks ask."""
    parts, missing = [(first, len(keys))], []
    while parts:
        begin, end = parts.pop()
        if begin == end or store.check(keys[begin:end]):
            continue
        if end - begin == 1:
            missing.append(begin)
            continue
        middle = (begin + end) // 2
        parts += [(middle, end), (begin, middle)]
    return missing


def _fitting(values: Sequence[bytes], group_name: str) -> tuple[Record, ...]:
    """The records; RendezvousError if any rank has left a failure instead."""
    told = [from_text(value, rank) for rank, value in enumerate(values)]
    failures = {one.rank: one for one in told if isinstance(one, Failure)}
    if failures:
        first, *others = sorted(failures)
        more = f"; neither could {list_ranks(others)}" if others else ""
        raise RendezvousError(f"group {group_name!r}: {failures[first]}{more}")
    return tuple(one for one in told if isinstance(one, Record))


def summary(meeting: Meeting, group_name: str, carriers: str) -> str:
    """Who shares a host with whom, and what the ranks may use: one line about a group."""
    on_host: dict[int, list[Record]] = {}
    for host, record in zip(meeting.hosts, meeting.records, strict=True):
        on_host.setdefault(host, []).append(record)
    shown = [
        f"{records[0].host_name} has {spans([record.rank for record in records])}"
        for records in list(on_host.values())[:SHOWN]
    ]
    more = f" and {len(on_host) - SHOWN} more" if len(on_host) > SHOWN else ""
    count = len(meeting.records)
    return (
        f"group {group_name!r}: {count} rank{'s' if count > 1 else ''} on {len(on_host)} "
        f"host{'s' if len(on_host) > 1 else ''} ({carriers}): {', '.join(shown)}{more}"
    )


def local_addresses() -> frozenset[IpAddress]:
    return frozenset(interface.address for interface in list_interfaces())


def _on_this_host(own: Record, peer: Record) -> bool:
    """Whether `peer` has this host's id and one of its addresses; a clone has other addresses."""
    if peer.host_id != own.host_id:
        return False
    return peer.host == own.host or peer.host in local_addresses()


def _reach(own: Record, peer: Record) -> str:
    """The peer's address; loopback for ranks on this host, which works despite firewalls."""
    if not _on_this_host(own, peer):
        return peer.address
    loopback = "127.0.0.1" if peer.host.version == 4 else "[::1]"
    return f"{loopback}:{peer.port}"
