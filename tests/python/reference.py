# SPDX-License-Identifier: Apache-2.0
"""The same calls over the backend under test and over gloo, side by side in the same processes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._dynamo  # every optimizer imports it: so it is loaded before the ranks are forked
import torch.distributed as dist


@functools.cache
def gloo_world() -> dist.ProcessGroup:
    """A gloo group of all ranks, made once in each process; every rank has to ask for it."""
    return dist.new_group(backend="gloo")


def assert_like_gloo(call: Callable[..., Any], tolerance: float = 0.0, *details: Any) -> Any:
    """call(group, *details) returns nested tensors, which must have the same bits over both groups.
    More than two ranks may add in another order than gloo does, and may differ by `tolerance`.
    """
    actual = call(dist.group.WORLD, *details)
    expected = call(gloo_world(), *details)
    if dist.get_world_size() <= 2:
        tolerance = 0.0
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
    return actual


@contextlib.contextmanager
def own_groups() -> Iterator[None]:
    """Ends the groups made within, so that a shared pool's next test finds its ranks as they were."""
    before = list(dist.distributed_c10d._world.pg_map)
    yield
    for group in list(dist.distributed_c10d._world.pg_map):
        if group not in before:
            dist.destroy_process_group(group)


def weights(model: torch.nn.Module) -> list[torch.Tensor]:
    """Copies of what the model learned and of its buffers."""
    return [tensor.detach().clone() for tensor in model.state_dict().values()]


def gradients(model: torch.nn.Module) -> list[torch.Tensor]:
    """Copies of the gradients; an empty tensor where there is none."""
    return [
        torch.empty(0) if parameter.grad is None else parameter.grad.detach().clone()
        for parameter in model.parameters()
    ]


def assert_close(actual: Any, expected: Any, tolerance: float) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
