# SPDX-License-Identifier: Apache-2.0
"""Which of torch's dtypes can be sent, as the README says, and what AVG makes of powers of two."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

pytestmark = pytest.mark.quick

ALL = sorted({dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}, key=str)
# The one floating dtype that packs several into a byte. Before torch 2.8 there is none.
FRACTIONS = {getattr(torch, "float4_e2m1fn_x2", None)}
SMALLEST = 2.0**-127


def check_floating() -> None:
    for dtype in ALL:
        if not dtype.is_floating_point and not dtype.is_complex:
            continue
        code = torch.full((8,), 1 + dist.get_rank(), dtype=torch.uint8)
        packed = code.repeat(dtype.itemsize).view(dtype)
        if dtype in FRACTIONS:
            with pytest.raises(TypeError, match=r"cannot be communicated; tensor\.view"):
                dist.broadcast(packed, 0)
            packed = packed.view(torch.uint8)
        dist.broadcast(packed, 0)
        assert packed.view(torch.uint8).eq(1).all(), dtype


def test_every_floating_dtype_of_whole_bytes_can_be_sent(shared_pool) -> None:
    shared_pool(2).run(check_floating)


def check_means_of_powers() -> None:
    """The quotients are rounded first, and nothing is smaller than the smallest number."""
    mine = [[1.0, SMALLEST, 4 * SMALLEST, 4.0], [1.0, SMALLEST, 4 * SMALLEST, 1.0]][dist.get_rank()]
    tensor = torch.tensor(mine, dtype=torch.float64).float().to(torch.float8_e8m0fnu)
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    assert tensor.double().tolist() == [1.0, 2 * SMALLEST, 4 * SMALLEST, 2.0]


def test_means_of_powers_of_two(shared_pool) -> None:
    shared_pool(2).run(check_means_of_powers)
