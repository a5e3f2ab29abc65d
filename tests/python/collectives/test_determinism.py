# SPDX-License-Identifier: Apache-2.0
"""The same inputs give the same bits: on every rank, on every repetition, on a lossy network."""

from __future__ import annotations

import hashlib

import pytest
import torch
import torch.distributed as dist
from exact import FLOATS, raw
from harness import Pool

pytestmark = [pytest.mark.quick, pytest.mark.lossy]

COUNTS = (1, 3, 1000, 65_537)


def digests(dtype: torch.dtype) -> list[str]:
    """Values of very different sizes, so that the order of additions shows in the last bits."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    result = []
    for count in COUNTS:
        exponents = torch.randint(-6, 7, (count,), generator=generator)
        data = (torch.randn(count, generator=generator) * 2.0**exponents).to(dtype)
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.PRODUCT):
            tensor = data.clone()
            dist.all_reduce(tensor, op)
            result.append(hashlib.sha256(raw(tensor)).hexdigest())
    return result


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_all_ranks_and_repetitions_agree(pool: Pool, dtype: torch.dtype) -> None:
    runs = [pool.run(digests, dtype) for _ in range(3)]
    for run in runs:
        assert run == [runs[0][0]] * pool.size


def signed_zeros_and_nans() -> str:
    rank = dist.get_rank()
    special = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1.0]
    tensor = torch.tensor([special[(rank + i) % len(special)] for i in range(60)])
    result = b""
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT):
        copy = tensor.clone()
        dist.all_reduce(copy, op)
        result += raw(copy)
    return hashlib.sha256(result).hexdigest()


def test_special_values_agree(pool: Pool) -> None:
    assert len(set(pool.run(signed_zeros_and_nans) + pool.run(signed_zeros_and_nans))) == 1


def nan_positions() -> list[bool]:
    tensor = torch.ones(9)
    if dist.get_rank() == dist.get_world_size() - 1:
        tensor[4] = float("nan")
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    return tensor.isnan().tolist()


def test_maximum_keeps_nan(pool: Pool) -> None:
    expected = [i == 4 for i in range(9)]
    assert pool.run(nan_positions) == [expected] * pool.size
