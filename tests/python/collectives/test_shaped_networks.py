# SPDX-License-Identifier: Apache-2.0
"""all_reduce over token buckets and long paths: results are right, and little is sent twice.

The speed depends on the machine, and a busy one retransmits more. Only a sender that floods the
network retransmits most of what it sends.
"""

from __future__ import annotations

import time

import pytest
import torch
import torch.distributed as dist
from bench_networks import need
from benchmarks import launcher, networks
from benchmarks.network_spec import parse

import rocecoll

ELEMENTS = 1 << 20
SECONDS = 1.0
MOST_SENT_AGAIN = 0.5
NAMES = (
    "veth:rate=1gbit,where=host,burst=128kb,limit=500kb",
    "veth:rate=1gbit,where=host,burst=64kb,limit=100kb,offload=off",
    "veth:rate=1gbit,burst=512kb,limit=500kb",
    "veth:rate=100mbit,limit=500kb,delay=20ms,jitter=5ms",
)


def sum_for_a_while(seconds: float) -> tuple[int, int]:
    """The packets that all of it took, and how many of them were retransmissions."""
    rank, world = dist.get_rank(), dist.get_world_size()
    stop = torch.zeros(1)
    ends = time.monotonic() + seconds
    while not stop:
        for shift in range(4):
            data = torch.arange(ELEMENTS, dtype=torch.float32) % 1000 + rank + shift
            expected = data * world + sum(range(world)) - rank * world
            dist.all_reduce(data)
            assert torch.equal(data, expected)
        stop[0] = time.monotonic() > ends
        dist.broadcast(stop, 0)
    rows = [row for row in rocecoll.peer_stats() if row["path"] == "udp"]
    sent, again = (
        sum(row[name] for row in rows) for name in ("packets_sent", "packets_retransmitted")
    )
    return sent, again


@pytest.mark.parametrize("name", NAMES)
def test_little_is_sent_again(own_pool, name: str) -> None:
    need(name)
    spec = parse(name)
    with networks.made(spec) as network:
        hosts = network.namespaces
        places = {"TEST_NETWORKS": ",".join(hosts), "ROCECOLL_SOCKET_IFNAME": f"={networks.DATA}"}
        places |= launcher.waiting(len(hosts), spec.helpers)
        with own_pool(len(hosts), **places) as pool:
            counted = pool.run(sum_for_a_while, SECONDS)
    sent, again = (sum(column) for column in zip(*counted, strict=True))
    print(f"{name}: {again} of {sent} packets were sent again")
    assert sent > 0 and again <= MOST_SENT_AGAIN * sent
