# SPDX-License-Identifier: Apache-2.0
"""What a call's copies wait for: that call's stream, and no other."""

from __future__ import annotations

from collections.abc import Callable

import fake_device
import pytest
import torch
import torch.distributed as dist
from exact import assert_same
from harness import Pool
from waiting import wait_until

pytestmark = pytest.mark.timeout(1800)  # the first one may build the fake accelerator

DevicePool = Callable[[int], Pool]
RANKS = 2
LATE = 6  # more calls than get a stream to themselves
PATIENCE_S = 30


def only_fake(device_pool: DevicePool, accelerator: str) -> Pool:
    if accelerator != "fake":
        pytest.skip("only the fake accelerator's streams and copies can be held")
    return device_pool(RANKS)


def passes_now(what: str) -> None:
    """The current stream gets here before anything is released."""
    here = torch.Event(device=fake_device.accelerator())
    here.record()
    wait_until(here.query, f"{what}: the stream waits for nobody else's copies", PATIENCE_S)


def check_late_results(count: int) -> None:
    """Results that must wait, because the stream still uses the tensors, hold up no others."""
    device = fake_device.accelerator()
    if dist.get_rank() == 0:
        for tag in range(LATE):
            dist.send(torch.full((count,), 1.0 + tag, device=device), 1, tag=tag)
        for _ in range(2):
            dist.send(torch.full((count,), 100.0, device=device), 1, tag=LATE)
        dist.barrier()
        fake_device.settle(device)
        return
    side = torch.Stream(device=device)
    late = [torch.zeros(count, device=device) for _ in range(LATE)]
    early = torch.zeros(count, device=device)
    torch.accelerator.synchronize(device)
    with side, fake_device.busy_stream(device):
        for tensor in late:
            fake_device.add(tensor, 50)
        works = [dist.irecv(tensor, 0, tag=tag) for tag, tensor in enumerate(late)]
        assert works[0] is not None
        works[0].wait()  # does not wait for the stream
        with torch.Stream(device=device):
            for _ in range(2):
                dist.recv(early, 0, tag=LATE)
                passes_now("recv")
            assert_same(early.cpu(), torch.full((count,), 100.0), "early")
        assert not any(work is not None and work.is_completed() for work in works)
    with side:
        for tag, work in enumerate(works):
            assert work is not None
            work.wait()
            assert_same(late[tag].cpu(), torch.full((count,), 1.0 + tag), tag)
    dist.barrier()
    fake_device.settle(device)


@pytest.mark.parametrize("count", [1, 1 << 20])
def test_late_results(device_pool: DevicePool, accelerator: str, count: int) -> None:
    only_fake(device_pool, accelerator).run(check_late_results, count)


def check_own_streams() -> None:
    """Where a device can make streams, copies have their own, which no other work shares."""
    device = fake_device.accelerator()
    tensor = torch.ones(1000, device=device)
    fake_device.ops().take_log()
    dist.all_reduce(tensor)
    fake_device.settle(device)
    copies = [entry.split() for entry in fake_device.ops().take_log() if "queue" in entry]
    assert {copy[1] for copy in copies} == {"d2h", "h2d"}
    for copy in copies:
        assert int(copy[3].split(":")[1]) > fake_device.POOL_STREAMS, copy


def test_own_streams(device_pool: DevicePool, accelerator: str) -> None:
    only_fake(device_pool, accelerator).run(check_own_streams)


def check_calls_without_results() -> None:
    """A rank that gets no results waits for no copies."""
    device = fake_device.accelerator()
    rank = dist.get_rank()
    busy, tensor = torch.ones(1000, device=device), torch.ones(1000, device=device)
    torch.accelerator.synchronize(device)
    dist.barrier()
    fake_device.ops().hold_copies("h2d", 0)
    first = dist.all_reduce(busy, async_op=True)
    if rank == 0:
        dist.send(tensor, 1)
        passes_now("send")
        work = dist.isend(tensor, 1, tag=1)
        assert work is not None
        work.get_future().wait()
        passes_now("the future of a send")
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor, 1, tag=2)]):
            work.wait()
        passes_now("a batch of sends")
        dist.reduce(tensor, 1)
        passes_now("reduce, not at the root")
        dist.broadcast(tensor, 0)
        passes_now("broadcast, at the root")
    else:
        received = [torch.empty_like(tensor) for _ in range(3)]
        works = [dist.irecv(one, 0, tag=tag) for tag, one in enumerate(received)]
        works.append(dist.reduce(tensor, 1, async_op=True))
        works.append(dist.broadcast(torch.empty_like(tensor), 0, async_op=True))
        for work in works:
            assert work is not None
            work.wait()
    assert first is not None and not first.is_completed()
    dist.barrier()
    fake_device.ops().release_copies()
    first.wait()
    assert_same(busy.cpu(), torch.full((1000,), float(dist.get_world_size())), "all_reduce")
    fake_device.settle(device)


def test_calls_without_results(device_pool: DevicePool, accelerator: str) -> None:
    only_fake(device_pool, accelerator).run(check_calls_without_results)
