# SPDX-License-Identifier: Apache-2.0
"""Records through every kind of Store, and what is said when ranks are missing or do not fit."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from rocecoll.rendezvous import RendezvousError
from rocecoll.rendezvous import meeting as meetings
from rocecoll.rendezvous.meeting import Meeting, meet, tell_failure
from rocecoll.rendezvous.records import (
    Record,
    check,
    make_failure,
    make_record,
    to_text,
)

pytestmark = pytest.mark.quick

HERE = frozenset(ipaddress.ip_address(f"10.0.0.{host}") for host in range(1, 100)) | frozenset(
    ipaddress.ip_address(f"fd00::{host}") for host in range(10)
)
CLONE = ipaddress.ip_address("10.0.0.7")
SECOND = timedelta(seconds=1)
LIMIT = timedelta(seconds=200)


@pytest.fixture(autouse=True)
def addresses_of_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meetings, "local_addresses", lambda: HERE)


@pytest.fixture
def others_never_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the verdict is known, there is no wait for a rank that the test does not have."""
    monkeypatch.setattr(meetings, "_LEAVE_LIMIT_S", 0.01)


def tcp(path: Path, ranks: int) -> list[dist.Store]:
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    clients = [dist.TCPStore("127.0.0.1", server.port) for _ in range(ranks - 1)]
    return [server, *clients]


def file(path: Path, ranks: int) -> list[dist.Store]:
    return [dist.FileStore(str(path / "store"), -1) for _ in range(ranks)]


def in_memory(path: Path, ranks: int) -> list[dist.Store]:
    return [dist.HashStore()] * ranks


def record(rank: int, ranks: int, **changes: object) -> Record:
    address = f"10.0.0.{rank + 1}:4000{rank}"
    own = make_record(rank, ranks, address, rank + 1, {"lane_bytes": "4096"}, "1.2.3")
    return dataclasses.replace(own, host_name="node1", **changes)


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
    return raised_by(calls)


def raised_by(calls: list[Future[Meeting]]) -> list[str]:
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
        dataclasses.replace(record(rank, 5, host_id=host), host_name=name)
        for rank, (host, name) in enumerate(places)
    ]
    for meeting in run_ranks([store] * 5, records):
        assert meetings.summary(meeting, "g", "udp") == (
            "group 'g': 5 ranks on 2 hosts (udp): node1 has 0-2 4, node2 has 3"
        )


def test_a_summary_has_an_end() -> None:
    records = tuple(record(rank, 100, host_id=str(rank % 50)) for rank in range(100))
    meeting = Meeting(records, (), tuple(rank % 50 for rank in range(100)), b"")
    assert meetings.summary(meeting, "g", "udp").endswith("has 15 65 and 34 more")


def test_a_clone_of_this_host_is_addressed_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Virtual machines started from one snapshot have the same name, boot id and namespace."""
    monkeypatch.setattr(meetings, "local_addresses", lambda: HERE - {CLONE})
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
    with pytest.raises(RendezvousError, match=r"rank 1 waited .* s for ranks 0, 3, 4 \(3 of 5\)"):
        meet(store, record(1, 5), "g", SECOND)


def test_a_rank_that_comes_too_late_is_told_who_has_given_up(others_never_leave: None) -> None:
    """Instead of a group whose first operation waits for a rank that is not in it."""
    store = dist.HashStore()
    for rank in (0, 1):
        with pytest.raises(RendezvousError, match="waited"):
            meet(store, record(rank, 3), "g", SECOND / 100)
    gave_up = r"rank 0 \(.*\) could not start: its wait ended by a timeout of 0.01 s; .* rank 1"
    with pytest.raises(RendezvousError, match=gave_up):
        meet(store, record(2, 3), "g", LIMIT)
    assert len(run_ranks([store] * 3, [record(rank, 3) for rank in range(3)])) == 3


class AlarmError(Exception):
    """What a program's handler of SIGALRM raises."""


class AlarmingStore:
    """In a call of which a signal comes."""

    def __init__(self, store: dist.Store) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def check(self, keys: list[str]) -> bool:
        raise AlarmError


def test_a_rank_that_a_signal_handler_interrupts_keeps_nobody(others_never_leave: None) -> None:
    store = dist.HashStore()
    alarming: Any = AlarmingStore(store)
    with pytest.raises(AlarmError):
        meet(alarming, record(1, 3), "g", LIMIT)
    with pytest.raises(RendezvousError, match=r"rank 1 .* its wait ended by AlarmError"):
        meet(store, record(0, 3), "g", LIMIT)


def test_many_missing_ranks_are_counted() -> None:
    with pytest.raises(RendezvousError, match=r"15, 16 and 83 more \(99 of 100\)"):
        meet(dist.HashStore(), record(0, 100, address="10.0.0.1:1"), "g", SECOND)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"version": "0.9"},
            r"version of rocecoll is '1.2.3' on rank 0 \(node1.*install one version",
        ),
        ({"host_id": "far", "address": "127.0.0.1:7"}, "loopback.*ROCECOLL_SOCKET_IFNAME"),
        ({"host_id": "far", "address": "[fd00::1]:7"}, "families.*ROCECOLL_SOCKET_FAMILY"),
        ({"address": "[fd00::1]:7"}, "families.*ROCECOLL_SOCKET_FAMILY"),
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


def test_options_that_differ_are_named_with_who_has_which() -> None:
    told = (
        "rocecoll: group 'g': ROCECOLL_LANE_BYTES is '4096' on ranks 0 2-3 (node1), '8192' on rank 1 "
        "(node1, 10.0.0.2:40001). Set ROCECOLL_LANE_BYTES alike on all ranks, or pass all the same "
        "rocecoll.Options"
    )
    records = [record(0, 4), record(1, 4, options={"lane_bytes": "8192"})]
    assert refusals([*records, record(2, 4), record(3, 4)]) == [told] * 4


def test_several_options_may_differ() -> None:
    [said, same] = refusals(
        [
            record(0, 2, options={"transport": "udp", "shm": "0", "algorithm": ""}),
            record(1, 2, options={"transport": "rc", "shm": "1", "algorithm": ""}),
        ]
    )
    assert said == same
    assert "ROCECOLL_TRANSPORT is 'udp' on rank 0" in said
    assert "ROCECOLL_SHM is '0' on rank 0" in said
    assert "Set ROCECOLL_TRANSPORT and ROCECOLL_SHM alike on all ranks" in said
    assert "ROCECOLL_SHM is by itself 0 where ROCECOLL_TRANSPORT=udp or ROCECOLL_FAULT" in said


def test_what_is_told_of_many_ranks_has_an_end() -> None:
    records = [
        dataclasses.replace(
            record(rank, 1000, address="10.0.0.1:1", options={"lane_bytes": str(rank % 9)}),
            host_name=f"node{rank % 9}-{rank // 9}",
        )
        for rank in range(1000)
    ]
    with pytest.raises(RendezvousError) as raised:
        check(records, records[0], "g")
    said = str(raised.value)
    assert "'3' on ranks 3 12 21 30" in said and "... (node3-0, node3-1, node3-2, node3-3" in said
    assert "and 108 more), '1'" in said and "and 5 more values. Set ROCECOLL_LANE_BYTES" in said
    assert len(said) < 1000


def test_two_hosts_that_offer_one_address() -> None:
    far = {"host_id": "far", "network_id": "far", "address": "10.0.0.1:40009"}
    told = (
        "rocecoll: group 'g': rank 0 (node1, 10.0.0.1:40000) and rank 1 (node1, 10.0.0.1:40009) are "
        "on different hosts that offer the same address 10.0.0.1, as that of a bridge for containers "
        "or virtual machines, which each host has for itself: on all ranks, name the interface or "
        "the network that joins the hosts, e.g. ROCECOLL_SOCKET_IFNAME=eth0 or 10.0.0.0/8"
    )
    assert refusals([record(0, 2), record(1, 2, **far)]) == [told] * 2


def test_containers_of_one_network_may_have_names_of_their_own() -> None:
    """The address is the same because the interface is."""
    store = dist.HashStore()
    named = record(1, 2, host_id="named", address="10.0.0.1:40009")
    first, second = run_ranks([store] * 2, [record(0, 2), named])
    assert first.addresses[1] == "10.0.0.1:40009"
    assert second.addresses[0] == "10.0.0.1:40000"


@pytest.mark.parametrize("make", [tcp, file, in_memory], ids=lambda make: make.__name__)
def test_a_rank_that_cannot_start_is_told_to_all(
    make: Callable[[Path, int], list[dist.Store]], tmp_path: Path
) -> None:
    first, failing, last = (dist.PrefixStore("g/cpu/", store) for store in make(tmp_path, 3))
    with ThreadPoolExecutor(3) as threads:
        calls = [threads.submit(meet, first, record(0, 3), "g", LIMIT)]
        reason = ValueError("ROCECOLL_LANE_BYTES='many':\n  accepted is a whole number")
        threads.submit(tell_failure, failing, 1, 3, reason)
        calls.append(threads.submit(meet, last, record(2, 3), "g", LIMIT))
    assert (
        raised_by(calls)
        == [
            f"rocecoll: group 'g': rank 1 ({socket.gethostname()}) could not start: "
            "ROCECOLL_LANE_BYTES='many': accepted is a whole number"
        ]
        * 2
    )


def test_of_several_ranks_that_cannot_start_all_are_named(others_never_leave: None) -> None:
    store = dist.HashStore()
    for rank in (3, 1):
        tell_failure(store, rank, 4, RuntimeError(f"no device {rank}"))
    with pytest.raises(
        RendezvousError, match=r"rank 1 \(.*start: no device 1; neither could rank 3"
    ):
        meet(store, record(0, 4), "g", LIMIT)


def test_a_failure_is_told_before_all_have_come(others_never_leave: None) -> None:
    """The launcher may have ended those ranks that had not come yet."""
    store = dist.HashStore()
    tell_failure(store, 1, 3, RuntimeError("no device"))
    with pytest.raises(RendezvousError, match=r"rank 1 \(.*\) could not start: no device"):
        meet(store, record(0, 3), "g", LIMIT)


def test_after_a_failure_the_same_ranks_may_meet_again() -> None:
    store = dist.HashStore()
    with ThreadPoolExecutor(2) as threads:
        call = threads.submit(meet, store, record(0, 2), "g", LIMIT)
        threads.submit(tell_failure, store, 1, 2, RuntimeError("x"))
    assert "could not start: x" in raised_by([call])[0]
    assert len(run_ranks([store] * 2, [record(0, 2), record(1, 2)])) == 2


def test_a_reason_has_an_end() -> None:
    failure = make_failure(0, RuntimeError("x" * 10_000))
    assert failure.reason.endswith("xxx ...") and len(failure.reason) < 700


class FrozenStore:
    """A Store whose server does not answer."""

    def __init__(self) -> None:
        self.thawed = threading.Event()

    def add(self, key: str, amount: int) -> int:
        self.thawed.wait(LIMIT.total_seconds())
        raise RuntimeError("the test is over")


def test_a_rank_that_fails_does_not_wait_for_its_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meetings, "_STORE_LIMIT_S", 0.01)
    store: Any = FrozenStore()
    tell_failure(store, 0, 2, RuntimeError("x"))
    assert not store.thawed.is_set()
    store.thawed.set()


def test_a_store_that_goes_away_is_told() -> None:
    code = (
        "import sys, torch.distributed as dist\n"
        "server = dist.TCPStore('127.0.0.1', 0, is_master=True, wait_for_workers=False)\n"
        "print(server.port, flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        store = dist.TCPStore("127.0.0.1", int(server.stdout.readline()))
        with ThreadPoolExecutor(1) as threads:
            call = threads.submit(meet, store, record(1, 2), "g", LIMIT)
            server.communicate()  # ends its input, and so the server
        assert raised_by([call]) == [
            "rocecoll: group 'g': rank 1 lost the Store while it waited for the other ranks: the "
            "process that serves it, rank 0 or the launcher, has ended or cannot be reached; look at "
            "its output first"
        ]


def test_world_sizes_differ(others_never_leave: None) -> None:
    store = dist.HashStore()
    store.set("rocecoll/1/1", to_text(record(1, 3)))
    with pytest.raises(RendezvousError, match="rank 1 of 3, rank 0 expects rank 1 of 2"):
        meet(store, record(0, 2), "g", SECOND)


@pytest.mark.parametrize("value", ["", "no json", "[]", "{}", '{"protocol": 1}'])
def test_unreadable_record(value: str, others_never_leave: None) -> None:
    store = dist.HashStore()
    store.set("rocecoll/1/1", value)
    with pytest.raises(RendezvousError, match="rank 1 left an unreadable record"):
        meet(store, record(0, 2), "g", SECOND)
