# SPDX-License-Identifier: Apache-2.0
"""check_equal() of an accelerator's tensors."""

from __future__ import annotations

import fake_device
import pytest
import torch
import torch.distributed as dist

import rocecoll
from rocecoll.equality import UnequalError

pytestmark = pytest.mark.quick


def check() -> None:
    device = fake_device.accelerator()
    rocecoll.check_equal([torch.ones(4, device=device)])
    with pytest.raises(UnequalError, match="tensor 0 differs on rank 1 of 2"):
        rocecoll.check_equal([torch.full((4,), float(dist.get_rank()), device=device)])


def test_check_equal_on_a_device(device_pool) -> None:
    device_pool(2).run(check)
