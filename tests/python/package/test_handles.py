# SPDX-License-Identifier: Apache-2.0
"""Handles: the same ranks everywhere, and everything that comes from outside is checked."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from rocecoll.rendezvous import RendezvousError
from rocecoll.rendezvous.handles import LONGEST_HANDLE, from_list, members, to_handle, to_list
from rocecoll.rendezvous.records import make_record

pytestmark = pytest.mark.quick


def handle(number: int, host: str = "a", port: int = 5000, **changed: Any) -> str:
    own = make_record(0, 0, f"192.0.2.1:{port}", number, {"lane_bytes": "1"}, "0.1.0")
    own = replace(own, host_name=host, host_id=host, network_id=host)
    return json.dumps({**json.loads(to_handle(own)), **changed})


def test_a_list_says_who_is_which_rank() -> None:
    told, rank = members(1, [handle(7), handle(5), handle(6)], 6)
    assert rank == 2 and [one.process for one in told.records] == [7, 5, 6]
    assert [(one.rank, one.ranks) for one in told.records] == [(0, 3), (1, 3), (2, 3)]
    assert from_list(to_list(told).encode()) == told
    part = told.of([2, 0])
    assert [(one.process, one.rank, one.ranks) for one in part] == [(6, 0, 2), (7, 1, 2)]


def test_a_set_is_ordered_alike_and_by_host() -> None:
    """Each host has addresses between which those of other hosts lie."""
    handles = [
        handle(process, host, process, address=f"192.0.2.{address}:{process}")
        for process, (host, address) in enumerate(
            [("b", 1), ("a", 2), ("b", 3), ("a", 10), ("c", 9)], start=1
        )
    ]
    orders = []
    for turned in (handles, handles[::-1]):
        told, rank = members(1, set(turned), 3)
        orders.append([one.process for one in told.records])
        assert told.records[rank].process == 3
    assert orders[0] == orders[1]
    hosts = [one.host_name for one in told.records]
    assert hosts == sorted(hosts) and orders[0] == [2, 4, 1, 3, 5]


@pytest.mark.parametrize("kind", [list, set])
def test_one_host_may_not_have_both_address_families(kind: type[list[str] | set[str]]) -> None:
    handles = kind([handle(1), handle(2, address="[2001:db8::1]:5000")])
    with pytest.raises(RendezvousError, match="use different address families"):
        members(1, handles, 1)


@pytest.mark.parametrize(
    ("handles", "why"),
    [
        ([], "no handles"),
        ([handle(2)], "own handle is not among the 1 given"),
        ([handle(1), handle(2), handle(1)], "handles 0 and 2 are of the same process"),
        ([handle(1), ""], "handle 1 is not what"),
        ([handle(1), "{}"], "handle 1 is not what"),
        ([handle(1), "[" * 60000], "handle 1 is not what"),
        ([handle(1), " " * (LONGEST_HANDLE + 1)], "handle 1 is not what"),
        ([handle(1), 5], "handle 1 is not what"),
        ([handle(1), handle(2, extra=1)], "handle 1 is damaged"),
        ([handle(1), handle(2, address="nowhere:1")], "handle 1 is damaged"),
        ([handle(1), handle(2, address="192.0.2.1:70000")], "handle 1 is damaged"),
        ([handle(1), handle(2, process="2")], "handle 1 is damaged"),
        ([handle(1), handle(2, process=True)], "handle 1 is damaged"),
        ([handle(1), handle(2, process=1 << 64)], "handle 1 is damaged"),
        ([handle(1), handle(2, options={"lane_bytes": 1})], "handle 1 is damaged"),
        ([handle(1), handle(2, options=[])], "handle 1 is damaged"),
    ],
)
def test_what_makes_no_group(handles: list[Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        members(1, handles, 1)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (handle(2, protocol=9, version="9.0"), "handle 1 is of version 9.0 with protocol 9"),
        (handle(2, version="0.0.9"), "the version of rocecoll is"),
        (handle(2, options={"lane_bytes": "2"}), "ROCECOLL_LANE_BYTES is"),
        (handle(2, "b"), "offer the same address"),
    ],
)
def test_what_does_not_fit_together(other: str, why: str) -> None:
    with pytest.raises(RendezvousError, match=why):
        members(1, [handle(1), other], 1)
