# SPDX-License-Identifier: Apache-2.0
"""Tensors of any size, in any number of calls at once, pass through pinned memory of the size that
an option sets, and no call waits for another in vain."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import fake_device
import pytest
import torch
import torch.distributed as dist
from device_failures import abort_in_the_middle
from device_operations import OPERATIONS, Maker
from exact import assert_same
from harness import Pool
from waiting import wait_until

pytestmark = pytest.mark.timeout(1800)  # the first one may build the fake accelerator

STAGING = 1 << 20  # bytes, the least that the option takes
LARGE = 2_000_003  # elements of float32: about 8 MB, and a prime, so that no size divides it
GROUPS = 3
AHEAD = 8  # kStagedLanesAhead of staged_memory.h


def run_staged(
    own_pool: Callable[..., Pool],
    accelerator: str,
    ranks: int,
    check: Callable[[], None],
    **more: str,
) -> None:
    if accelerator != "fake":
        pytest.skip("only the fake accelerator tells how much was pinned")
    variables = {"TEST_ACCELERATOR": accelerator, "ROCECOLL_STAGING_BYTES": str(STAGING)}
    with own_pool(ranks, **variables, **more) as pool:
        pool.run(check)


def expect_bounded(what: object) -> None:
    assert fake_device.ops().take_most_pinned() <= STAGING, what


def copied(direction: str) -> int:
    """Bytes that passed through pinned memory since the log was last taken."""
    entries = [entry.split() for entry in fake_device.ops().take_log()]
    return sum(int(entry[2]) for entry in entries if entry[:2] == ["done", direction])


def check_operations() -> None:
    device = fake_device.accelerator()
    for name, operation in OPERATIONS.items():
        for count in (1, LARGE):
            ours, expected = (
                Maker(place, torch.float32, strided=False)
                for place in (device, torch.device("cpu"))
            )
            operation(ours, count)
            expect_bounded((name, count))
            operation(expected, count)
            for result, other in zip(ours.results, expected.results, strict=True):
                assert_same(result.cpu(), other, (name, count))
    fake_device.settle(device)


@pytest.mark.parametrize("ranks", [2, 3])
def test_operations(own_pool: Callable[..., Pool], accelerator: str, ranks: int) -> None:
    run_staged(own_pool, accelerator, ranks, check_operations)


def check_many_at_once() -> None:
    """Each rank calls the groups in its own order, with messages in between, and waits for the
    results in yet another order."""
    device = fake_device.accelerator()
    rank, size = dist.get_rank(), dist.get_world_size()
    groups = [dist.new_group() for _ in range(GROUPS)]
    for turn in range(3):
        works, checks = [], []
        for i in range(GROUPS):
            number = (i + rank) % GROUPS
            tensor = torch.full((LARGE,), float(rank + number), device=device)
            works.append(dist.all_reduce(tensor, group=groups[number], async_op=True))
            checks.append((tensor, torch.full((LARGE,), float(sum(range(size)) + size * number))))
            output = torch.empty(size * (LARGE // 8), device=device)
            mine = torch.full((LARGE // 8,), float(rank), device=device)
            works.append(
                dist.all_gather_into_tensor(output, mine, group=groups[number], async_op=True)
            )
            checks.append((output, torch.arange(float(size)).repeat_interleave(LARGE // 8)))
            sent = torch.full((LARGE // 9,), 100.0 * rank + i + turn, device=device)
            received = torch.empty_like(sent)
            works.append(dist.isend(sent, (rank + 1) % size, tag=i))
            works.append(dist.irecv(received, (rank - 1) % size, tag=i))
            expected = 100.0 * ((rank - 1) % size) + i + turn
            checks.append((received, torch.full((LARGE // 9,), expected)))
        for work in works if rank % 2 else reversed(works):
            assert work is not None
            work.wait()
        for number, (result, expected) in enumerate(checks):
            assert_same(result.cpu(), expected, (turn, number))
        expect_bounded(turn)
    fake_device.settle(device)
    for group in groups:
        dist.destroy_process_group(group)


@pytest.mark.parametrize("ranks", [2, 3])
def test_many_at_once(own_pool: Callable[..., Pool], accelerator: str, ranks: int) -> None:
    run_staged(own_pool, accelerator, ranks, check_many_at_once)


def check_messages_beside_a_collective_that_waits() -> None:
    """One rank's collective takes all the memory; the other rank wants messages first."""
    device = fake_device.accelerator()
    rank = dist.get_rank()
    tensor = torch.ones(LARGE, device=device)
    message = torch.full((LARGE,), 5.0, device=device)
    work = dist.all_reduce(tensor, async_op=True) if rank == 0 else None
    for _ in range(3):
        if rank == 0:
            dist.send(message, 1)
            dist.recv(message, 1)
        else:
            received = torch.empty_like(message)
            dist.recv(received, 0)
            assert_same(received.cpu(), torch.full((LARGE,), 5.0), "received")
            dist.send(received, 0)
    if work is None:
        work = dist.all_reduce(tensor, async_op=True)
    assert work is not None
    work.wait()
    assert_same(tensor.cpu(), torch.full((LARGE,), 2.0), "collective")
    assert_same(message.cpu(), torch.full((LARGE,), 5.0), "message")
    expect_bounded("messages")
    fake_device.settle(device)


def test_messages_beside_a_collective_that_waits(
    own_pool: Callable[..., Pool], accelerator: str
) -> None:
    run_staged(own_pool, accelerator, 2, check_messages_beside_a_collective_that_waits)


def check_memory_comes_back() -> None:
    """Also that of groups that fail in the middle: later calls pass through pinned memory again."""
    device = fake_device.accelerator()
    rank = dist.get_rank()
    for held in ("d2h", "h2d"):
        group = dist.new_group()
        tensor = torch.ones(LARGE, device=device)
        fake_device.settle(device)
        dist.barrier()
        fake_device.ops().hold_copies(held, rank)  # some of rank 1's copies run
        abort_in_the_middle(group, tensor)
        del tensor
        fake_device.ops().release_copies()
        dist.destroy_process_group(group)
        dist.barrier()
        fake_device.settle(device)
        fake_device.ops().take_log()
        again = torch.ones(LARGE, device=device)
        dist.all_reduce(again)
        assert_same(again.cpu(), torch.full((LARGE,), 2.0), held)
        fake_device.settle(device)
        assert copied("d2h") >= 4 * LARGE * 3 // 4, held
    expect_bounded("aborted")


def test_memory_comes_back(own_pool: Callable[..., Pool], accelerator: str) -> None:
    run_staged(own_pool, accelerator, 2, check_memory_comes_back)


def wait_for_copies(direction: str, count: int) -> None:
    """Waits until this many are queued."""
    log: list[list[str]] = []

    def are_queued() -> bool:
        log.extend(entry.split()[:2] for entry in fake_device.ops().take_log())
        return log.count(["queue", direction]) >= count

    wait_until(are_queued, f"{count} copies {direction} are queued", limit_s=100)


def check_late_inputs_take_little() -> None:
    """Calls whose input has yet to be computed leave the memory to a call whose input is ready."""
    device = fake_device.accelerator()
    groups = [dist.new_group() for _ in range(GROUPS)]
    late = [torch.ones(LARGE, device=device) for _ in groups]
    tensor = torch.ones(LARGE, device=device)
    fake_device.settle(device)
    with torch.Stream(device=device), fake_device.busy_stream(device):
        works = [
            dist.all_reduce(one, group=group, async_op=True)
            for one, group in zip(late, groups, strict=True)
        ]
        fake_device.ops().take_log()
        fake_device.ops().hold_copies("d2h", 0)
        with torch.Stream(device=device):
            works.append(dist.all_reduce(tensor, async_op=True))
        wait_for_copies("d2h", AHEAD)
        fake_device.ops().release_copies()
        works.pop().wait()
    for work in works:
        work.wait()
    for one in (tensor, *late):
        assert_same(one.cpu(), torch.full((LARGE,), 2.0), "result")
    expect_bounded("late inputs")
    fake_device.settle(device)


def test_late_inputs_take_little(own_pool: Callable[..., Pool], accelerator: str) -> None:
    lanes = {"ROCECOLL_LANE_BYTES": str(64 << 10)}
    run_staged(own_pool, accelerator, 2, check_late_inputs_take_little, **lanes)


class Heard(logging.Handler):
    """Waits for a line of our log."""

    def __init__(self, wanted: str) -> None:
        super().__init__()
        self.wanted, self.came = wanted, threading.Event()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        if self.wanted in self.lines[-1]:
            self.came.set()


def check_made_with_the_group() -> None:
    """At the first group of a program that uses an accelerator, and not at its first call."""
    device = fake_device.accelerator()
    heard = Heard(f"tensors of {device} are staged in {STAGING >> 10} KiB of pinned host memory")
    logger = logging.getLogger("rocecoll")
    logger.addHandler(heard)
    logger.setLevel(logging.INFO)
    fake_device.ops().take_most_pinned()
    group = dist.new_group()
    assert fake_device.ops().take_most_pinned() == STAGING
    tensor = torch.ones(LARGE, device=device)
    dist.all_reduce(tensor, group=group)
    assert_same(tensor.cpu(), torch.full((LARGE,), 2.0), "result")
    assert fake_device.ops().take_most_pinned() == STAGING
    assert heard.came.wait(60), heard.lines
    logger.removeHandler(heard)
    fake_device.settle(device)


def test_made_with_the_group(own_pool: Callable[..., Pool], accelerator: str) -> None:
    run_staged(own_pool, accelerator, 2, check_made_with_the_group)


def count_copies(call: Callable[[], object]) -> list[int]:
    """To the host, and back."""
    device = fake_device.accelerator()
    fake_device.settle(device)
    fake_device.ops().take_log()
    call()
    fake_device.settle(device)
    log = [entry.split()[:2] for entry in fake_device.ops().take_log()]
    return [log.count(["queue", direction]) for direction in ("d2h", "h2d")]


def check_rows(count: int, most: int) -> None:
    """Blocks of one tensor, in a list or not, go together."""
    rank, size = dist.get_rank(), dist.get_world_size()
    tensor = torch.arange(float(count)).to(fake_device.accelerator())
    output = torch.empty_like(tensor)
    mine, parts = tensor.chunk(size)[rank], list(output.chunk(size))
    for call in (
        lambda: dist.all_to_all_single(output, tensor),
        lambda: dist.all_gather(parts, mine),
        lambda: dist.all_reduce(tensor),
    ):
        assert max(count_copies(call)) <= most, count


def check_short_lists(count: int) -> None:
    device = fake_device.accelerator()
    rank, size = dist.get_rank(), dist.get_world_size()
    inputs = [torch.full((count,), 10.0 * rank + i, device=device) for i in range(size)]
    outputs = [torch.empty(count, device=device) for _ in range(size)]
    assert count_copies(lambda: dist.all_gather(outputs, inputs[0])) == [1, 1]
    for i, output in enumerate(outputs):
        assert_same(output.cpu(), torch.full((count,), 10.0 * i), ("all_gather", i))
    assert count_copies(lambda: dist.reduce_scatter(outputs[0], inputs)) == [1, 1]
    total = float(sum(10 * other + rank for other in range(size)))
    assert_same(outputs[0].cpu(), torch.full((count,), total), "reduce_scatter")
    assert count_copies(lambda: dist.all_to_all(outputs, inputs)) == [1, 1]
    for i, output in enumerate(outputs):
        assert_same(output.cpu(), torch.full((count,), 10.0 * i + rank), ("all_to_all", i))


def check_few_copies() -> None:
    size = dist.get_world_size()
    check_rows(8 << 10, 1)
    count = LARGE // size * size
    check_rows(count, count * 4 // size // (250 << 10) + 2)  # lanes
    for count in (1, 2000):
        check_short_lists(count)
    fake_device.settle(fake_device.accelerator())


def test_few_copies(own_pool: Callable[..., Pool], accelerator: str) -> None:
    run_staged(own_pool, accelerator, 4, check_few_copies)
