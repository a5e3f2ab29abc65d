# SPDX-License-Identifier: Apache-2.0
"""kill -9 of each rank in turn in the middle of operations: every survivor names it.

A few trials of each kind; `pytest tests/python/failures/test_kills.py --kill-trials 100` makes 300 in all.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
import torch
import torch.distributed as dist
from harness import Pool
from namespaces import Host, ip
from torch.utils.data import DataLoader, TensorDataset

SIZES = (2, 4, 8)
PEER_TIMEOUT_S = 2.0
MARGIN_S = 20.0  # what a loaded machine adds; the times themselves are in the report
ELEMENTS = (1, 1000, 100_000)

_kept: list[Iterator[list[torch.Tensor]]] = []


def begin(loader_workers: int) -> None:
    """All links are open, and the children of a DataLoader have inherited what there is."""
    if loader_workers > 0:
        data = TensorDataset(torch.arange(1000.0))
        loader = DataLoader(
            data,
            num_workers=loader_workers,
            persistent_workers=True,
            multiprocessing_context="fork",  # the default in the ranks starts them anew
        )
        _kept.append(iter(loader))
        next(_kept[-1])
    for elements in ELEMENTS:
        dist.all_reduce(torch.ones(elements))
    dist.barrier()


def operate_until_it_fails() -> tuple[str, float]:
    try:
        while True:
            for elements in ELEMENTS:
                dist.all_reduce(torch.ones(elements))
    except RuntimeError as error:
        return str(error), time.monotonic()


def kill(pool: Pool, victim: int, delay_s: float) -> float:
    """How long it takes until the last survivor knows."""
    survivors = [rank for rank in range(pool.size) if rank != victim]
    pool.send(operate_until_it_fails)
    time.sleep(delay_s)  # so that the kill may come at any point
    pool.process(victim).kill()
    killed_at = time.monotonic()
    slowest_s = 0.0
    for rank, outcome in zip(survivors, pool.collect(survivors), strict=True):
        assert outcome.error is None, outcome
        text, failed_at = outcome.value
        assert re.search(rf"lost rank {victim}\b", text), f"rank {rank}: {text}"
        slowest_s = max(slowest_s, failed_at - killed_at)
    return slowest_s


def run_trials(
    count: int,
    make_pool: Callable[[int], AbstractContextManager[Pool]],
    loader_workers: int,
    limit_s: float,
) -> float:
    slowest_s, source = 0.0, random.Random(count)
    victims = [(size, victim) for size in SIZES for victim in range(size)]
    source.shuffle(victims)
    for trial in range(count):
        size, victim = victims[trial % len(victims)]
        with make_pool(size) as pool:
            pool.run(begin, loader_workers)
            slowest_s = max(slowest_s, kill(pool, victim, source.uniform(0, 0.2)))
        assert slowest_s < limit_s, f"trial {trial}: rank {victim} of {size}"
    return slowest_s


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    return request.config.getoption("kill_trials")


@pytest.mark.parametrize("loader_workers", [0, 2], ids=["alone", "with DataLoader workers"])
def test_killed_ranks_are_named(own_pool, kills: int, loader_workers: int, record_property) -> None:
    slowest_s = run_trials(
        kills, lambda size: own_pool(size, timeout_s=120), loader_workers, MARGIN_S
    )
    record_property("slowest_s", round(slowest_s, 2))


def test_killed_ranks_are_named_without_icmp(
    own_pool,
    kills: int,
    hosts: tuple[Host, ...],
    record_property,
) -> None:
    """Ranks on two hosts, neither of which reports a closed port: only silence shows the death."""
    for host in hosts:
        done = ip("-n", host.namespace, "rule", "add", "ipproto", "icmp", "prio", "1", "blackhole")
        if done.returncode != 0:
            pytest.skip(f"no such rules here: {done.stderr.strip()}")
    details = {
        "timeout_s": 120,
        "ROCECOLL_PEER_TIMEOUT": str(PEER_TIMEOUT_S),
        "TEST_NETWORKS": ",".join(host.namespace for host in hosts),
        "ROCECOLL_SOCKET_IFNAME": "veth",  # for the store's own host, loopback would do
    }
    slowest_s = run_trials(
        kills, lambda size: own_pool(size, **details), 0, PEER_TIMEOUT_S + MARGIN_S
    )
    record_property("slowest_s", round(slowest_s, 2))
