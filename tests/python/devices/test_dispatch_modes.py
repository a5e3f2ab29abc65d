# SPDX-License-Identifier: Apache-2.0
"""A thread that waits carries out copies that no dispatch mode sees: otherwise Python would run,
and wait for its lock, in the middle of the engine's work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import fake_device
import pytest
import torch
import torch.distributed as dist
from exact import assert_same
from harness import Pool
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.timeout(1800)  # the first one may build the fake accelerator

LARGE = 4 << 20  # elements: 32 lanes of float32
PATIENCE_S = 3


class Blocking(TorchDispatchMode):
    """Holds up the first operator that it sees until the block has ended, or for PATIENCE_S."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.ended = threading.Event()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if not self.seen:
            self.ended.wait(PATIENCE_S)
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def check_wait(device: torch.device) -> None:
    size = dist.get_world_size()
    tensors = [torch.ones(LARGE, device=device), torch.ones(2, 1000, device=device).t()]
    received = torch.zeros(1000, 2, device=device)[:, 1]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    works.append(dist.broadcast(received, 0, async_op=True))
    mode = Blocking()
    with mode:
        for work in works:
            assert work is not None
            work.wait()
        mode.ended.set()
        seen = list(mode.seen)
    assert seen == [], f"{len(seen)} operators, such as {sorted(set(seen))}"
    for tensor in tensors:
        assert_same(tensor.cpu(), torch.full(tensor.shape, float(size)), tensor.shape)


def check_wait_of_a_transform(device: torch.device) -> None:
    """As in a function that torch.func differentiates."""
    result = torch.ones(2, 1000, device=device).t()

    def function(x: torch.Tensor) -> torch.Tensor:
        work = dist.all_reduce(result, async_op=True)
        assert work is not None
        work.wait()
        return x * x

    assert torch.func.grad(function)(torch.tensor(3.0)) == 6.0
    assert_same(result.cpu(), torch.full((1000, 2), float(dist.get_world_size())), "result")


def check_device() -> None:
    device = fake_device.accelerator()
    check_wait(device)
    check_wait_of_a_transform(device)
    fake_device.settle(device)


def test_modes_of_a_waiting_thread(device_pool: Callable[[int], Pool]) -> None:
    device_pool(2).run(check_device)


def check_cpu() -> None:
    check_wait(torch.device("cpu"))
    check_wait_of_a_transform(torch.device("cpu"))


def test_modes_of_a_waiting_thread_on_the_cpu(shared_pool: Callable[[int], Pool]) -> None:
    shared_pool(2).run(check_cpu)
