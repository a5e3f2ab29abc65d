# SPDX-License-Identifier: Apache-2.0
"""rocecoll.peer_stats(): the peers, the path to each, and how much it carried."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from harness import Pool
from launch import run_program

import rocecoll

pytestmark = pytest.mark.quick

COUNT = 100_000
BYTES = COUNT * 4
KEYS = {
    "group",
    "rank",
    "address",
    "path",
    "in_use",
    "bytes_sent",
    "bytes_received",
    "packets_sent",
    "packets_received",
    "packets_retransmitted",
    "rtt_us",
    "congestion_window_bytes",
    "last_heard_s",
}


LIMIT_S = 120.0

Rows = list[dict[str, Any]]


def exchange_with_next(times: int = 1) -> Rows:
    """Everybody sends to the next rank; the rows once this rank has what it waits for."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for _ in range(times):
        sending = dist.isend(torch.ones(COUNT), (rank + 1) % size)
        received = torch.zeros(COUNT)
        dist.recv(received, (rank - 1) % size)
        sending.wait()
    return [dict(row) for row in rocecoll.peer_stats()]


def until(pool: Pool, wanted: Callable[[Rows], bool]) -> list[Rows]:
    """Exchanges until the rows of every rank are as wanted."""
    deadline = time.monotonic() + LIMIT_S
    while not all(map(wanted, rows := pool.run(exchange_with_next))):
        assert time.monotonic() < deadline, rows
    return rows


def row_of(rows: Rows, **wanted: Any) -> dict[str, Any]:
    [row] = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
    return row


def uses(path: str) -> Callable[[Rows], bool]:
    return lambda rows: {row["path"] for row in rows if row["in_use"]} == {path}


def test_a_row_for_each_rank_that_was_talked_to(own_pool) -> None:
    with own_pool(4, ROCECOLL_TRANSPORT="udp") as pool:
        # No round trip is taken from packets that had to be sent again, as on a busy machine.
        known = until(pool, lambda rows: all(row["rtt_us"] is not None for row in rows))
        for rank, rows in enumerate(known):
            assert {row["rank"] for row in rows} == {(rank + 1) % 4, (rank - 1) % 4}
            assert len(rows) == 2
            for row in rows:
                assert row.keys() == KEYS
                assert (row["group"], row["path"], row["in_use"]) == ("0", "udp", True)
                assert re.fullmatch(r"\S+:\d+", row["address"])
                assert row["congestion_window_bytes"] > 0
                assert row["last_heard_s"] >= 0
            following = row_of(rows, rank=(rank + 1) % 4)
            previous = row_of(rows, rank=(rank - 1) % 4)
            assert following["rtt_us"] > 0
            for row, direction, other in (
                (following, "sent", "received"),
                (previous, "received", "sent"),
            ):
                assert row[f"bytes_{direction}"] >= BYTES
                assert row[f"packets_{direction}"] >= BYTES // 65_536
                assert 0 < row[f"bytes_{other}"] < row[f"bytes_{direction}"]
                assert row[f"packets_{other}"] > 0


def test_what_goes_through_memory_has_a_row_beside_that_of_udp(own_pool) -> None:
    with own_pool(2) as pool:
        before = until(pool, uses("shm"))
        after = pool.run(exchange_with_next)
        for rank in range(2):
            old, new = (row_of(rows[rank], path="shm") for rows in (before, after))
            assert new["in_use"]
            assert new["rank"] == 1 - rank
            for direction in ("sent", "received"):
                assert new[f"bytes_{direction}"] - old[f"bytes_{direction}"] >= BYTES
                assert new[f"packets_{direction}"] > old[f"packets_{direction}"]
            assert (new["rtt_us"], new["congestion_window_bytes"]) == (None, None)
            control = row_of(after[rank], path="udp")
            assert not control["in_use"]
            assert control["packets_sent"] > 0


def test_what_is_lost_is_counted_as_sent_again(own_pool) -> None:
    with own_pool(2, ROCECOLL_FAULT="loss=0.2,seed=1") as pool:
        until(pool, lambda rows: rows[0]["packets_retransmitted"] > 0)


def ranks_in_rows(group: str) -> set[int]:
    return {row["rank"] for row in rocecoll.peer_stats() if row["group"] == group}


def reduce_in_pair() -> tuple[set[int], set[int]]:
    """The ranks in the rows of the pair's group while it lives, and after it."""
    pair = dist.new_group([2, 1])
    alive: set[int] = set()
    if dist.get_rank() > 0:
        name = pair.group_name
        dist.all_reduce(torch.ones(8), group=pair)
        alive = ranks_in_rows(name)
    dist.barrier()  # the rank that leaves first closes the link
    if dist.get_rank() == 0:
        return alive, set()
    dist.destroy_process_group(pair)
    return alive, ranks_in_rows(name)


def test_ranks_are_global_and_groups_have_rows_of_their_own(own_pool) -> None:
    with own_pool(3, ROCECOLL_TRANSPORT="udp") as pool:
        assert pool.run(reduce_in_pair) == [(set(), set()), ({2}, set()), ({1}, set())]


ALONE = """
import rocecoll, torch, torch.distributed as dist
print(rocecoll.peer_stats())
dist.init_process_group("rocecoll", store=dist.HashStore(), rank=0, world_size=1)
dist.all_reduce(torch.ones(3))
print(rocecoll.peer_stats())
dist.destroy_process_group()
print(rocecoll.peer_stats())
"""


def test_who_talks_to_nobody_has_no_rows() -> None:
    assert run_program([sys.executable, "-c", ALONE]) == "[]\n" * 3
