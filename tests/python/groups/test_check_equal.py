# SPDX-License-Identifier: Apache-2.0
"""check_equal(): which ranks have other bits, in which tensor."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.distributed as dist

import rocecoll
from rocecoll.equality import Difference, UnequalError, differences

pytestmark = pytest.mark.quick


def test_differences() -> None:
    """The majority is right, or in a tie the side of the lowest rank. A missing tensor is a
    difference, too."""
    same = {"a": b"1", "b": b"2"}
    assert differences([same, same, same]) == []
    assert differences([same, {"a": b"1", "b": b"3"}]) == [Difference("b", (1,))]
    assert differences([{"a": b"0"}, {"a": b"1"}, {"a": b"1"}]) == [Difference("a", (0,))]
    assert differences([same, {"a": b"1"}, same]) == [Difference("b", (1,))]
    assert differences([{}, {}]) == []


def made(odd: bool) -> dict[str, Any]:
    """What a module may have, and the same with one bit that differs in three."""
    weight = torch.arange(12.0).reshape(3, 4)
    zero, nan = torch.zeros(2), torch.tensor([math.nan])
    half = torch.ones(5, dtype=torch.bfloat16)
    if odd:
        weight[2, 3] = math.nextafter(11.0, 12.0) if weight.dtype == torch.float64 else 12.0
        zero = -zero
        half[4] = 1.0078125
    return {
        "weight": weight.t(),  # not contiguous
        "zero": zero,
        "half": half,
        "nan": nan,
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(3),
        "flag": torch.tensor([True]),
        "complex": torch.tensor([1 + 2j]).conj(),
    }


def in_order_of(rank: int) -> dict[str, torch.Tensor]:
    """The same tensors by name, in another order on each second rank."""
    named = {"first": torch.zeros(1), "second": torch.ones(1)}
    return dict(reversed(named.items())) if rank % 2 else named


def check() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    rocecoll.check_equal(made(False))
    rocecoll.check_equal(made(False).values())
    rocecoll.check_equal([])
    rocecoll.check_equal(in_order_of(rank))
    rocecoll.check_equal([torch.nn.Parameter(torch.ones(2))])
    with pytest.raises(
        UnequalError, match=f"weight differs on rank {size - 1} of {size}"
    ) as raised:
        rocecoll.check_equal(made(rank == size - 1))
    others = {one.tensor: one.ranks for one in raised.value.differences}
    assert others == dict.fromkeys(("weight", "zero", "half"), (size - 1,))
    with pytest.raises(UnequalError, match=f"tensor 0 differs on rank {size - 1}"):  # dtype
        rocecoll.check_equal(
            [torch.zeros(2, dtype=torch.int32 if rank == size - 1 else torch.float32)]
        )
    with pytest.raises(UnequalError, match=f"tensor 1 differs .* which rank {size - 1} lacks"):
        rocecoll.check_equal([torch.zeros(1)] * (1 if rank == size - 1 else 2))
    part = dist.new_group([size - 1])
    if rank == size - 1:
        rocecoll.check_equal([torch.rand(3)], part)
        dist.destroy_process_group(part)
    with pytest.raises(ValueError, match="must be dense"):
        rocecoll.check_equal([torch.zeros(2).to_sparse()])
    dist.barrier()


@pytest.mark.parametrize("size", [2, 3])
def test_check_equal(shared_pool, size: int) -> None:
    shared_pool(size).run(check)
