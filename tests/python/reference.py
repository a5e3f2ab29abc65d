# SPDX-License-Identifier: Apache-2.0
"""The same calls over the backend under test and over gloo, side by side in the same processes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


@functools.cache
def gloo_world() -> dist.ProcessGroup:
    """A gloo group of all ranks, made once in each process; every rank has to ask for it."""
    return dist.new_group(backend="gloo")


def assert_like_gloo(call: Callable[[dist.ProcessGroup], Any]) -> Any:
    """call(group) returns nested tensors; they have the same bits over both groups."""
    actual = call(dist.group.WORLD)
    expected = call(gloo_world())
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)
    return actual
