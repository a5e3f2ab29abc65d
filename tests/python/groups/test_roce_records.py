# SPDX-License-Identifier: Apache-2.0
"""Which pairs of a group may use RoCE, by what its ranks say of themselves, and what is told of it."""

from __future__ import annotations

import dataclasses

import pytest

from rocecoll.rendezvous.records import (
    Record,
    from_text,
    make_record,
    roce_ranks,
    roce_summary,
    to_text,
)

pytestmark = pytest.mark.quick

NO_DEVICE = "there is no RDMA device"


def records(*hosts: str, without: dict[int, str] | None = None) -> list[Record]:
    """One for each rank on these hosts; all have RoCE but those in `without`, with the reason."""
    made = []
    for rank, host in enumerate(hosts):
        problem = (without or {}).get(rank, "")
        port = "" if problem else f"mlx5_{rank} port 1, GID 3 (10.0.0.{rank}, RoCE v2)"
        own = make_record(rank, len(hosts), f"10.0.0.{rank}:4000", rank, {}, "1", port, problem)
        made.append(dataclasses.replace(own, host_id=host))
    return made


def test_a_record_tells_the_port_or_why_there_is_none() -> None:
    for one in records("a", "b", without={1: "no port\nof a device   is usable:\n" + "x" * 900}):
        assert from_text(to_text(one).encode(), one.rank) == one
        assert "\n" not in one.roce_problem and len(one.roce_problem) < 700
        assert bool(one.roce_port) != bool(one.roce_problem)


def test_all_have_it() -> None:
    group = records("a", "a", "b", "b")
    assert roce_ranks(group, share_memory=True) == [True] * 4
    assert roce_summary(group, share_memory=True) == "RoCE for 4 of 4 pairs between hosts"
    assert roce_summary(group, share_memory=False) == "RoCE for 6 of 6 pairs"


def test_who_has_none_is_named_with_the_reason() -> None:
    group = records("a", "a", "b", "b", "c", without={1: NO_DEVICE, 3: NO_DEVICE, 4: "port down"})
    assert roce_ranks(group, share_memory=True) == [True, False, True, False, False]
    assert roce_summary(group, share_memory=True) == (
        "RoCE for 1 of 8 pairs between hosts; ranks 1 3 on UDP: there is no RDMA device; "
        "rank 4 on UDP: port down"
    )


@pytest.mark.parametrize(
    ("hosts", "without"),
    [
        (["a", "b"], {0: NO_DEVICE, 1: NO_DEVICE}),
        (["a", "b"], {1: NO_DEVICE}),
        (["a", "a", "b"], {2: NO_DEVICE}),  # the two that have it share memory
        (["a", "a"], {}),
        (["a"], {}),
    ],
)
def test_nobody_is_told_of_it_where_no_pair_has_it(
    hosts: list[str], without: dict[int, str]
) -> None:
    group = records(*hosts, without=without)
    assert roce_ranks(group, share_memory=True) == [False] * len(hosts)
    assert roce_summary(group, share_memory=True) == ""


def test_ranks_of_one_host_use_it_where_they_share_no_memory() -> None:
    group = records("a", "a", "b", without={2: NO_DEVICE})
    assert roce_ranks(group, share_memory=False) == [True, True, False]
    assert roce_summary(group, share_memory=False) == (
        f"RoCE for 1 of 3 pairs; rank 2 on UDP: {NO_DEVICE}"
    )


def test_reasons_of_many_ranks_have_an_end() -> None:
    group = records(*map(str, range(100)), without={rank: f"why {rank}" for rank in range(2, 90)})
    told = roce_summary(group, share_memory=True)
    assert told.startswith("RoCE for 66 of 4950 pairs between hosts; rank 2 on UDP: why 2; ")
    assert told.endswith("rank 5 on UDP: why 5; and 84 more reasons")
