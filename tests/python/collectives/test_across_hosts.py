# SPDX-License-Identifier: Apache-2.0
"""Several ranks on each of two hosts: every collective, whatever the layout, and what goes between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import test_data_movement as movement
import test_reductions as reductions
import torch
import torch.distributed as dist
from exact import assert_same, make_input
from namespaces import Host
from test_determinism import digests

import rocecoll

LAYOUTS = ("0011", "0001", "01010", "00000001")  # for each rank, a digit: the number of its host
FLAT = {"all_reduce": "ring", "all_gather": "circulant", "reduce_scatter": "circulant"}
MESSAGE_BYTES = 8 << 20
ROUNDS = 4


def on(hosts: tuple[Host, ...], layout: str) -> dict[str, str]:
    """The environment of a pool whose ranks are spread over the hosts by this layout."""
    networks = ",".join(hosts[int(digit)].namespace for digit in layout)
    return {"TEST_NETWORKS": networks, "ROCECOLL_SOCKET_IFNAME": "veth"}


def check_all(dtype: torch.dtype) -> None:
    for check in (
        reductions.check_all_reduce,
        reductions.check_reduce,
        reductions.check_reduce_scatter,
        movement.check_broadcast,
        movement.check_all_gather,
        movement.check_gather_and_scatter,
        movement.check_all_to_all,
    ):
        check(dtype)


def check_large() -> None:
    reductions.check_large(torch.float32)
    movement.check_large()
    movement.check_uneven_all_to_all(1000)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_collective(own_pool, hosts: tuple[Host, ...], layout: str) -> None:
    with own_pool(len(layout), **on(hosts, layout)) as pool:
        for dtype in (torch.float32, torch.bfloat16, torch.uint8, torch.int64):
            pool.run(check_all, dtype)
        pool.run(check_large)
        pool.run(movement.check_objects)


@pytest.mark.parametrize("layout", ["0011", "01010"])
def test_all_ranks_and_repetitions_agree(own_pool, hosts: tuple[Host, ...], layout: str) -> None:
    runs = []
    for _ in range(2):
        with own_pool(len(layout), **on(hosts, layout)) as pool:
            runs += [pool.run(digests, torch.float32) for _ in range(2)]
    for run in runs:
        assert run == [runs[0][0]] * len(layout)


def check_packed() -> None:
    for dtype in (torch.bool, torch.uint8, torch.float16, torch.int32, torch.complex128):
        movement.check_all_to_all(dtype)
    rank, size = dist.get_rank(), dist.get_world_size()
    count = 100_003
    sent = [movement.piece_of(torch.uint8, count, rank, target) for target in range(size)]
    received = torch.empty(count * size, dtype=torch.uint8)
    dist.all_to_all_single(received, torch.cat(sent))
    for source, piece in enumerate(received.chunk(size)):
        assert_same(piece, movement.piece_of(torch.uint8, count, source, rank), source)


@pytest.mark.parametrize("layout", ["0010101", "00000001", "01111"])
def test_packed_all_to_all_of_unlike_hosts(own_pool, hosts: tuple[Host, ...], layout: str) -> None:
    """Also with blocks and on hosts for which it is not chosen by size."""
    asked = {"ROCECOLL_ALGORITHM": "all_to_all:host_columns"}
    with own_pool(len(layout), **on(hosts, layout), **asked) as pool:
        pool.run(check_packed)


def check_parts() -> None:
    """Groups within a host, across both, in another order than their ranks on the hosts."""
    rank = dist.get_rank()
    for members in ([0, 1], [2, 3, 4], [1, 2, 3], [4, 1, 3, 0], [0, 4]):
        group = dist.new_group(members, backend="rocecoll")
        if rank not in members:
            continue
        for count in (1, 1000, 200_003):
            tensor = make_input(torch.int64, count, rank)
            dist.all_reduce(tensor, group=group)
            expected = sum(make_input(torch.int64, count, member) for member in members)
            assert_same(tensor, expected, (members, count))
        dist.barrier(group)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    part = backend.split(None, [3, 0, 2, 1])
    if rank < 4:
        tensor = torch.full((100_000,), float(rank))
        part.allreduce([tensor]).wait()
        assert_same(tensor, torch.full((100_000,), 6.0), "split")


def test_groups_of_some_ranks(own_pool, hosts: tuple[Host, ...]) -> None:
    with own_pool(5, **on(hosts, "00011")) as pool:
        pool.run(check_parts)


def sent_bytes() -> int:
    """Bytes that this host has sent over the link to the other one, headers included."""
    [device] = Path("/proc/self/net/dev").read_text().split("veth-")[1:]
    return int(device.split(":")[1].split()[8])


def call(operation: str, group: dist.ProcessGroup) -> Callable[[], object]:
    size = dist.get_world_size()
    whole = torch.ones(MESSAGE_BYTES // 4)
    part = torch.ones(MESSAGE_BYTES // 4 // size)
    return {
        "all_reduce": lambda: dist.all_reduce(whole, group=group),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole, group=group),
    }[operation]


def vectors_on_the_link(operation: str, algorithm: str) -> float:
    """How many times the vector leaves this host in one operation."""
    options = rocecoll.Options(algorithm=f"{operation}:{algorithm}")
    group = dist.new_group(backend="rocecoll", pg_options=options)
    run = call(operation, group)
    run()
    dist.barrier()
    before = sent_bytes()
    for _ in range(ROUNDS):
        run()
    dist.barrier()  # its last acknowledgements are counted, too, but they are small
    return (sent_bytes() - before) / ROUNDS / MESSAGE_BYTES


@pytest.mark.parametrize(("operation", "fewest"), [
    ("all_reduce", 1.0), ("all_gather", 0.5), ("reduce_scatter", 0.5),
])  # fmt: skip
def test_hardly_more_than_the_fewest_bytes_go_between_hosts(
    own_pool, hosts: tuple[Host, ...], operation: str, fewest: float
) -> None:
    """2 (H - 1) / H of the vector, or half of that. A flat program's ranks send it several times.

    Headers and acknowledgements are 5 % at this MTU. Retransmissions on a busy machine also count,
    so the bound is wide; flat programs send at least 1.5 times as much.
    """
    with own_pool(4, **on(hosts, "0011")) as pool:
        flat = max(pool.run(vectors_on_the_link, operation, FLAT[operation]))
        by_hosts = max(pool.run(vectors_on_the_link, operation, "host_columns"))
    assert fewest <= by_hosts < 1.2 * fewest
    assert flat > 1.45 * fewest
