# SPDX-License-Identifier: Apache-2.0
"""An accelerator's tensors follow its streams: when they are computed, copied and freed."""

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
LARGE = 4 << 20  # elements: 32 lanes of float32
MEDIUM = 1 << 20  # elements: the unstored results of several calls fit into the staging memory


def total(value: float, count: int) -> torch.Tensor:
    return torch.full((count,), float(value * dist.get_world_size()))


def only_fake(device_pool: DevicePool, accelerator: str) -> Pool:
    if accelerator != "fake":
        pytest.skip("only the fake accelerator's copies can be held")
    return device_pool(RANKS)


def check_issue_does_not_wait() -> None:
    """The input is computed when the call returns or later, and its result counts."""
    device = fake_device.accelerator()
    for count in (1, LARGE):
        for block in fake_device.idle_then_busy(device):
            tensor = torch.zeros(count, device=device)
            views = torch.zeros(2, count, device=device)
            received = torch.zeros(count, device=device)
            with block as busy:
                fake_device.add(tensor, 1)
                fake_device.add(views, 2)
                works = [dist.all_reduce(tensor, async_op=True)]
                works.append(dist.all_reduce(views.t(), async_op=True))
                works.append(dist.broadcast(received, 0, async_op=True))
                assert not busy or not any(work.is_completed() for work in works)
            for work in works:
                work.wait()
            assert_same(tensor.cpu(), total(1, count), count)
            assert_same(views.cpu(), total(2, count).expand(2, -1), count)
            assert_same(received.cpu(), torch.zeros(count), count)
    fake_device.settle(device)


def test_issue_does_not_wait(device_pool: DevicePool) -> None:
    device_pool(RANKS).run(check_issue_does_not_wait)


def check_late_input_holds_up_nobody() -> None:
    """A call whose input is computed later does not delay the copies of one before it."""
    device = fake_device.accelerator()
    side = torch.Stream(device=device)
    for block in fake_device.idle_then_busy(device):
        early, late = torch.ones(LARGE, device=device), torch.zeros(LARGE, device=device)
        torch.accelerator.synchronize(device)
        first = dist.all_reduce(early, async_op=True)
        with block as busy:
            fake_device.add(late, 2)
            second = dist.all_reduce(late, async_op=True)
            with side:
                first.wait()
                assert_same(early.cpu(), total(1, LARGE), "early")
            assert not busy or not second.is_completed()
        second.wait()
        assert_same(late.cpu(), total(2, LARGE), "late")
    fake_device.settle(device)


def test_late_input_holds_up_nobody(device_pool: DevicePool) -> None:
    device_pool(RANKS).run(check_late_input_holds_up_nobody)


def check_output_in_use() -> None:
    """Work already queued on the stream that uses the output comes before the result, also where
    the rank reads nothing."""
    device = fake_device.accelerator()
    for count in (1, LARGE):
        tensor = torch.ones(count, device=device)
        if dist.get_rank() == 0:
            for _ in range(2):
                dist.broadcast(tensor, 0)
            for _ in range(2):
                dist.send(tensor, 1)
        else:
            for receive in (
                lambda t: dist.broadcast(t, 0, async_op=True),
                lambda t: dist.irecv(t, 0),
            ):
                for block in fake_device.idle_then_busy(device):
                    tensor = torch.zeros(count, device=device)
                    with block:
                        fake_device.add(tensor, 5)
                        work = receive(tensor)
                    assert work is not None
                    work.wait()
                    assert_same(tensor.cpu(), torch.ones(count), count)
    fake_device.settle(device)


def test_output_in_use(device_pool: DevicePool) -> None:
    device_pool(RANKS).run(check_output_in_use)


def check_wait_does_not_wait_for_copies() -> None:
    device = fake_device.accelerator()
    tensor = torch.ones(LARGE, device=device)
    views = torch.ones(2, 1000, device=device)
    torch.accelerator.synchronize(device)
    fake_device.ops().hold_copies("h2d", 0)
    works = [dist.all_reduce(tensor, async_op=True), dist.all_reduce(views.t(), async_op=True)]
    for work in works:
        work.wait()
    fake_device.add(tensor, 10)
    fake_device.add(views, 10)
    used = torch.Event(device=device)
    used.record()
    assert not used.query() and not any(work.is_completed() for work in works)
    fake_device.ops().release_copies()
    used.synchronize()
    assert all(work.is_completed() and work.is_success() for work in works)
    assert_same(tensor.cpu(), total(1, LARGE) + 10, "tensor")
    assert_same(views.cpu(), total(1, 1000).expand(2, -1) + 10, "views")
    fake_device.settle(device)


def test_wait_does_not_wait_for_copies(device_pool: DevicePool, accelerator: str) -> None:
    only_fake(device_pool, accelerator).run(check_wait_does_not_wait_for_copies)


def check_overlap() -> None:
    """Results leave for the device while most of the input has yet to come."""
    device = fake_device.accelerator()
    tensor = torch.ones(LARGE, device=device)
    torch.accelerator.synchronize(device)
    fake_device.ops().take_log()
    free = 4 * dist.get_world_size()  # four lanes
    fake_device.ops().hold_copies("d2h", free)
    work = dist.all_reduce(tensor, async_op=True)
    log: list[str] = []

    def one_has_left() -> bool:
        log.extend(fake_device.ops().take_log())
        return any(entry.startswith("done h2d") for entry in log)

    wait_until(one_has_left, "a result has left", limit_s=200)
    assert sum(entry.startswith("done d2h") for entry in log) <= free
    fake_device.ops().release_copies()
    work.wait()
    assert_same(tensor.cpu(), total(1, LARGE), "result")
    log += fake_device.ops().take_log()
    streams = [{e.split()[3] for e in log if f"queue {way}" in e} for way in ("d2h", "h2d")]
    assert len(streams[0]) == len(streams[1]) == 1, streams
    assert streams[0] != streams[1]
    fake_device.settle(device)


def test_overlap(device_pool: DevicePool, accelerator: str) -> None:
    only_fake(device_pool, accelerator).run(check_overlap)


def check_dropped_tensors() -> None:
    """Tensors that the caller drops are kept for as long as copies use them."""
    device = fake_device.accelerator()
    size = dist.get_world_size()
    for count in (1000, MEDIUM):
        for held in ("d2h", "h2d"):
            last = torch.ones(count, device=device)
            fake_device.ops().hold_copies(held, 0)
            works = [
                dist.all_reduce(torch.ones(count, device=device), async_op=True),
                dist.all_reduce(torch.ones(count, 2, device=device)[:, 1], async_op=True),
                dist.all_gather_into_tensor(
                    torch.empty(size * count, device=device),
                    torch.ones(count, device=device),
                    async_op=True,
                ),
            ]
            if held == "h2d":
                for work in works:
                    work.wait()
            work = None
            del works
            fake_device.ops().release_copies()
            dist.all_reduce(last)
            fake_device.settle(device)


def test_dropped_tensors(device_pool: DevicePool, accelerator: str) -> None:
    only_fake(device_pool, accelerator).run(check_dropped_tensors)


def check_futures() -> None:
    """Callbacks and waiters come after the copies, though no thread waits for those."""
    device = fake_device.accelerator()
    tensor = torch.ones(LARGE, device=device)

    def plus_one(future: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
        result = future.value()[0]
        fake_device.add(result, 1)
        return result

    work = dist.all_reduce(tensor, async_op=True)
    future = work.get_future()
    chained = future.then(plus_one)
    result = chained.wait()
    fake_device.add(result, 10)
    assert result.device == device
    assert_same(result.cpu(), total(1, LARGE) + 11, "result")
    fake_device.settle(device)


def test_futures(device_pool: DevicePool) -> None:
    device_pool(RANKS).run(check_futures)


def check_batch() -> None:
    """The work of a batch stands for all its copies."""
    device = fake_device.accelerator()
    rank = dist.get_rank()
    received = [torch.zeros(1000, device=device) for _ in range(3)]
    senders = [torch.zeros(1000, device=device) for _ in range(3)]
    with fake_device.busy_stream(device):
        operations = []
        for tag, tensor in enumerate(received):
            sent = senders.pop()
            fake_device.add(sent, rank + 1 + tag)
            operations.append(dist.P2POp(dist.isend, sent, 1 - rank, tag=tag))
            operations.append(dist.P2POp(dist.irecv, tensor, 1 - rank, tag=tag))
        works = dist.batch_isend_irecv(operations)
        del operations, sent
    for work in works:
        work.wait()
    for tag, tensor in enumerate(received):
        fake_device.add(tensor, 100)
        assert_same(tensor.cpu(), torch.full((1000,), 100.0 + 2 - rank + tag), tag)
    fake_device.settle(device)


def test_batch(device_pool: DevicePool) -> None:
    device_pool(RANKS).run(check_batch)


def check_failing_copies() -> None:
    device = fake_device.accelerator()
    tensor = torch.ones(1000, device=device)
    if dist.get_rank() == 0:
        fake_device.ops().fail_copies(True)
    with pytest.raises(dist.DistBackendError, match=r"copying tensors to the host: .*told to fail"):
        dist.all_reduce(tensor)
    fake_device.ops().fail_copies(False)
    fake_device.settle(device)


def test_failing_copies(own_pool: Callable[..., Pool], accelerator: str) -> None:
    if accelerator != "fake":
        pytest.skip("only the fake accelerator can be told to fail")
    with own_pool(RANKS, TEST_ACCELERATOR=accelerator) as pool:
        pool.run(check_failing_copies)


def check_training() -> None:
    """DistributedDataParallel there is training on the whole batch on the CPU."""
    device = fake_device.accelerator()
    rank, size = dist.get_rank(), dist.get_world_size()

    def make() -> torch.nn.Module:
        torch.manual_seed(3)
        return torch.nn.Sequential(
            torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2)
        ).double()

    plain = make()
    model = torch.nn.parallel.DistributedDataParallel(make().to(device), bucket_cap_mb=0.001)
    generator = torch.Generator().manual_seed(4)
    for _ in range(4):
        data = torch.randn(4 * size, 8, generator=generator, dtype=torch.float64)
        plain(data).square().mean().backward()
        model(data[4 * rank : 4 * rank + 4].to(device)).square().mean().backward()
        with torch.no_grad():
            for ours, expected in zip(model.parameters(), plain.parameters(), strict=True):
                assert ours.grad is not None and expected.grad is not None
                torch.testing.assert_close(ours.grad.cpu(), expected.grad)
                for parameter in (ours, expected):
                    parameter -= 0.1 * parameter.grad
                    parameter.grad = None
    fake_device.settle(device)


def test_training(device_pool: DevicePool) -> None:
    device_pool(RANKS).run(check_training)
