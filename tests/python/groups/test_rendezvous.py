# SPDX-License-Identifier: Apache-2.0
"""Records through every kind of Store, and what is said when ranks are missing or do not fit."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist

from rocecoll import rendezvous
from rocecoll.rendezvous import Meeting, Record, RendezvousError, make_record, meet

pytestmark = pytest.mark.quick

HERE = frozenset(ipaddress.ip_address(f"10.0.0.{host}") for host in range(1, 100)) | frozenset(
    ipaddress.ip_address(f"fd00::{host}") for host in range(10)
)
CLONE = ipaddress.ip_address("10.0.0.7")
SECOND = timedelta(seconds=1)
LIMIT = timedelta(seconds=200)


@pytest.fixture(autouse=True)
def addresses_of_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "local_addresses", lambda: HERE)


def tcp(path: Path, ranks: int) -> list[dist.Store]:
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    clients = [dist.TCPStore("127.0.0.1", server.port) for _ in range(ranks - 1)]
    return [server, *clients]


def file(path: Path, ranks: int) -> list[dist.Store]:
    return [dist.FileStore(str(path / "store"), -1) for _ in range(ranks)]


def in_memory(path: Path, ranks: int) -> list[dist.Store]:
    return [dist.HashStore()] * ranks


def record(rank: int, ranks: int, **changes: object) -> Record:
    own = make_record(rank, ranks, f"10.0.0.{rank + 1}:4000{rank}", rank + 1, "udp", "1.2.3")
    return dataclasses.replace(own, **changes)


def run_ranks(stores: list[dist.Store], records: list[Record], group: str = "g") -> list[Meeting]:
    with ThreadPoolExecutor(len(records)) as threads:
        calls = [
            threads.submit(meet, store, own, group, LIMIT)
            for store, own in zip(stores, records, strict=True)
        ]
        return [call.result() for call in calls]


def refusals(records: list[Record]) -> list[str]:
    """What each rank raises; all of them must."""
    store = dist.HashStore()
    with ThreadPoolExecutor(len(records)) as threads:
        calls = [threads.submit(meet, store, own, "g", LIMIT) for own in records]
    messages = []
    for call in calls:
        with pytest.raises(RendezvousError) as raised:
            call.result()
        messages.append(str(raised.value))
    return messages


@pytest.mark.parametrize("make", [tcp, file, in_memory], ids=lambda make: make.__name__)
@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_all_know_the_same(
    make: Callable[[Path, int], list[dist.Store]], ranks: int, tmp_path: Path
) -> None:
    stores = [dist.PrefixStore("group/cpu/", store) for store in make(tmp_path, ranks)]
    meetings = run_ranks(stores, [record(rank, ranks) for rank in range(ranks)])
    assert len({meeting.key for meeting in meetings}) == 1
    assert len(meetings[0].key) == 16
    for meeting in meetings:
        assert [known.rank for known in meeting.records] == list(range(ranks))
        assert meeting.addresses == tuple(f"127.0.0.1:4000{rank}" for rank in range(ranks))


def test_keys_never_repeat() -> None:
    store = dist.HashStore()
    records = [record(0, 2), record(1, 2)]
    again = run_ranks([store, store], records)
    keys = {meeting.key for meeting in again}
    for group in ("g", "other"):
        fresh = [record(0, 2), record(1, 2)]
        keys |= {meeting.key for meeting in run_ranks([store, store], fresh, group)}
    assert len(keys) == 3


def test_a_second_turn_in_the_same_store_sees_no_old_records() -> None:
    store = dist.HashStore()
    run_ranks([store, store], [record(0, 2), record(1, 2)])
    moved = [record(rank, 2, address=f"10.0.0.9:5000{rank}") for rank in range(2)]
    for meeting in run_ranks([store, store], moved):
        assert meeting.addresses == ("127.0.0.1:50000", "127.0.0.1:50001")


def test_other_hosts_are_addressed_as_they_say() -> None:
    store = dist.HashStore()
    records = [record(0, 3), record(1, 3), record(2, 3, host_id="far")]
    near, _, far = run_ranks([store] * 3, records)
    assert near.addresses == ("127.0.0.1:40000", "127.0.0.1:40001", "10.0.0.3:40002")
    assert far.addresses == ("10.0.0.1:40000", "10.0.0.2:40001", "127.0.0.1:40002")
    assert near.hosts == far.hosts == (0, 0, 1)


def test_the_summary_of_a_group_tells_who_shares_a_host() -> None:
    store = dist.HashStore()
    places = [("a", "node1")] * 3 + [("b", "node2"), ("a", "node1")]
    records = [
        record(rank, 5, host_id=host, host_name=name) for rank, (host, name) in enumerate(places)
    ]
    for meeting in run_ranks([store] * 5, records):
        assert rendezvous.summary(meeting, "g") == (
            "rocecoll: group 'g': 5 ranks on 2 hosts (udp): node1 has 0-2 4, node2 has 3"
        )


def test_a_summary_has_an_end() -> None:
    records = tuple(record(rank, 100, host_id=str(rank % 50)) for rank in range(100))
    meeting = Meeting(records, (), tuple(rank % 50 for rank in range(100)), b"")
    assert rendezvous.summary(meeting, "g").endswith("has 15 65 and 34 more")


def test_a_clone_of_this_host_is_addressed_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """A virtual machine started from the same snapshot has name, boot id and namespace alike."""
    monkeypatch.setattr(rendezvous, "local_addresses", lambda: HERE - {CLONE})
    store = dist.HashStore()
    records = [record(0, 3), record(1, 3), record(2, 3, address=f"{CLONE}:40002")]
    first, second, _ = run_ranks([store] * 3, records)
    for meeting in (first, second):
        assert meeting.addresses == ("127.0.0.1:40000", "127.0.0.1:40001", f"{CLONE}:40002")


def test_ipv6() -> None:
    store = dist.HashStore()
    records = [record(rank, 2, address=f"[fd00::{rank}]:4000{rank}") for rank in range(2)]
    for meeting in run_ranks([store] * 2, records):
        assert meeting.addresses == ("[::1]:40000", "[::1]:40001")


def test_missing_ranks_are_named() -> None:
    store = dist.HashStore()
    store.set("rocecoll/1/2", "there")
    with pytest.raises(RendezvousError, match=r"rank 1 waited .* s for ranks 0, 3, 4 of 5"):
        meet(store, record(1, 5), "g", SECOND)


def test_many_missing_ranks_are_counted() -> None:
    with pytest.raises(RendezvousError, match=r"15, 16 and 83 more of 100"):
        meet(dist.HashStore(), record(0, 100, address="10.0.0.1:1"), "g", SECOND)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": "0.9"}, "uses version"),
        ({"transport": "rc"}, "uses transport.*set ROCECOLL_TRANSPORT alike"),
        ({"host_id": "far", "address": "127.0.0.1:7"}, "loopback.*ROCECOLL_SOCKET_IFNAME"),
        ({"host_id": "far", "address": "[fd00::1]:7"}, "families.*ROCECOLL_SOCKET_FAMILY"),
        ({"protocol": 2}, "protocol"),
    ],
)
def test_ranks_that_do_not_fit(changes: dict[str, object], message: str) -> None:
    messages = refusals([record(0, 2), record(1, 2, **changes)])
    for said in messages:
        assert re.search(message, said)
    if "address" in changes:
        assert all(
            "10.0.0.1:40000" in said and str(changes["address"]) in said for said in messages
        )


def test_world_sizes_differ() -> None:
    store = dist.HashStore()
    store.set("rocecoll/1/1", json.dumps(dataclasses.asdict(record(1, 3))))
    with pytest.raises(RendezvousError, match="rank 1 of 3, rank 0 expects rank 1 of 2"):
        meet(store, record(0, 2), "g", SECOND)


@pytest.mark.parametrize("value", ["", "no json", "[]", "{}", '{"protocol": 1}'])
def test_unreadable_record(value: str) -> None:
    store = dist.HashStore()
    store.set("rocecoll/1/1", value)
    with pytest.raises(RendezvousError, match="rank 1 left an unreadable record"):
        meet(store, record(0, 2), "g", SECOND)
