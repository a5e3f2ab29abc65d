# SPDX-License-Identifier: Apache-2.0
"""all_reduce, reduce and reduce_scatter: every dtype, operation and number of ranks, to the bit."""

from __future__ import annotations

import math

import pytest
import torch
import torch.distributed as dist
from exact import (
    COMMON_DTYPES,
    COMPLEX,
    DTYPES,
    FLOAT8,
    FLOATS,
    OPS,
    assert_same,
    counts,
    has_meaning,
    make_input,
    reduced,
    supported_ops,
    torch_op,
)
from harness import Pool

pytestmark = [pytest.mark.quick, pytest.mark.lossy]

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def inputs_of(dtype: torch.dtype, count: int, op: str) -> list[torch.Tensor]:
    return [make_input(dtype, count, rank, op) for rank in range(dist.get_world_size())]


def check_all_reduce(dtype: torch.dtype) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for op in supported_ops(dtype):
        for count in counts(size):
            inputs = inputs_of(dtype, count, op)
            tensor = inputs[rank].clone()
            dist.all_reduce(tensor, torch_op(op))
            assert_same(tensor, reduced(inputs, op), (op, dtype, count))


@dtypes
def test_all_reduce(pool: Pool, dtype: torch.dtype) -> None:
    pool.run(check_all_reduce, dtype)


def check_reduce(dtype: torch.dtype) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for index, op in enumerate(supported_ops(dtype)):
        for count in (0, 1, size, 1001):
            root = (index + count) % size
            inputs = inputs_of(dtype, count, op)
            tensor = inputs[rank].clone()
            dist.reduce(tensor, root, torch_op(op))
            if rank == root:
                assert_same(tensor, reduced(inputs, op), (op, dtype, count, root))


@dtypes
def test_reduce(pool: Pool, dtype: torch.dtype) -> None:
    pool.run(check_reduce, dtype)


def check_reduce_scatter(dtype: torch.dtype) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for op in supported_ops(dtype):
        for count in (0, 1, 3, 257):
            inputs = inputs_of(dtype, count * size, op)
            expected = reduced(inputs, op).chunk(size)[rank] if count else inputs[rank]
            output = torch.empty(count, dtype=dtype)
            dist.reduce_scatter_tensor(output, inputs[rank], torch_op(op))
            assert_same(output, expected, ("tensor", op, dtype, count))
            pieces = [piece.clone() for piece in inputs[rank].reshape(size, count)]
            output = torch.empty(count, dtype=dtype)
            dist.reduce_scatter(output, pieces, torch_op(op))
            assert_same(output, expected, ("list", op, dtype, count))


@dtypes
def test_reduce_scatter(pool: Pool, dtype: torch.dtype) -> None:
    pool.run(check_reduce_scatter, dtype)


PERIOD = (
    10_007  # a prime, so that no lane or segment is like another; to make more numbers takes long
)


def check_large(dtype: torch.dtype) -> None:
    """Several lanes; the last one odd."""
    count = 3 * 1024 * 1024 // dtype.itemsize + 5
    inputs = inputs_of(dtype, PERIOD, "SUM")

    def repeated(numbers: torch.Tensor) -> torch.Tensor:
        return numbers.repeat(count // PERIOD + 1)[:count].clone()

    tensor = repeated(inputs[dist.get_rank()])
    dist.all_reduce(tensor)
    assert_same(tensor, repeated(reduced(inputs, "SUM")), (dtype, count))


@pytest.mark.parametrize("dtype", COMMON_DTYPES, ids=str)
def test_large_all_reduce(pool: Pool, dtype: torch.dtype) -> None:
    pool.run(check_large, dtype)


def check_coalesced() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    inputs = [inputs_of(torch.float32, count, "SUM") for count in (5, 0, 4099)]
    tensors = [one[rank].clone() for one in inputs]
    with dist.distributed_c10d._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    for tensor, one in zip(tensors, inputs, strict=True):
        assert_same(tensor, reduced(one, "SUM"), ("all_reduce", tensor.numel()))
    inputs = [inputs_of(torch.int32, count * size, "MAX") for count in (1, 300)]
    outputs = [torch.empty(count, dtype=torch.int32) for count in (1, 300)]
    with dist.distributed_c10d._coalescing_manager():
        for output, one in zip(outputs, inputs, strict=True):
            dist.reduce_scatter_tensor(output, one[rank], dist.ReduceOp.MAX)
    for output, one in zip(outputs, inputs, strict=True):
        assert_same(output, reduced(one, "MAX").chunk(size)[rank], "reduce_scatter")


def test_coalesced(pool: Pool) -> None:
    pool.run(check_coalesced)


def check_refusals(dtype: torch.dtype) -> list[str]:
    """Every op without meaning for the dtype raises, and the group still works."""
    accepted = []
    for op in OPS:
        if has_meaning(op, dtype):
            continue
        try:
            dist.all_reduce(make_input(dtype, 10, dist.get_rank()), torch_op(op))
            accepted.append(op)
        except (RuntimeError, ValueError, TypeError) as error:
            # For complex numbers torch itself refuses first, with a message of its own.
            assert dtype in COMPLEX or op in str(error), error
            assert dtype in COMPLEX or str(dtype).removeprefix("torch.") in str(error), error
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [dist.get_world_size()] * 3
    return accepted


@pytest.mark.parametrize(
    "dtype", [dtype for dtype in DTYPES if supported_ops(dtype) != list(OPS)], ids=str
)
def test_operation_without_meaning_is_refused(pool: Pool, dtype: torch.dtype) -> None:
    assert pool.run(check_refusals, dtype) == [[]] * pool.size


def check_average_of_large_numbers(dtype: torch.dtype) -> None:
    """Of the largest power of two, whose sum overflows; exact where the number of ranks is one, too."""
    size = dist.get_world_size()
    large = 2.0 ** (math.frexp(torch.finfo(dtype).max)[1] - 1)
    everyone = torch.full((size * 3,), large, dtype=torch.float64)
    tensor = everyone.to(dtype)
    part = torch.empty(3, dtype=dtype)
    dist.reduce_scatter_tensor(part, tensor, dist.ReduceOp.AVG)
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    for result in (tensor, part):
        expected = everyone[: result.numel()]
        error = ((result.double() - expected) / expected).abs().max().item()
        assert error <= (0 if size in (1, 2, 4, 8) else 2 * torch.finfo(dtype).eps), result


@pytest.mark.parametrize("dtype", FLOATS + FLOAT8, ids=str)
def test_average_of_large_numbers(pool: Pool, dtype: torch.dtype) -> None:
    pool.run(check_average_of_large_numbers, dtype)


def check_average_truncates() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for sign in (1, -1):
        # The ranks' sum is size * 2 + 1, so the quotient is not whole; toward zero is 2 or -2.
        tensor = torch.tensor([sign * (2 + (rank == 0))], dtype=torch.int32)
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        assert tensor.item() == sign * (3 if size == 1 else 2)


def test_average_of_integers_truncates(pool: Pool) -> None:
    pool.run(check_average_truncates)
