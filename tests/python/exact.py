# SPDX-License-Identifier: Apache-2.0
"""Inputs that every rank can make for every other, and results by exact arithmetic.

Inputs are small integers in every dtype, so that sums and products up to 8 ranks are exact and a
result must equal the reference in every bit, whatever the order of the additions. AVG divides
floating and complex numbers before it adds them: theirs are multiples of the number of ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch
import torch.distributed as dist

SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
INTEGERS = SIGNED + UNSIGNED
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
COMPLEX = (torch.complex64, torch.complex128)
DTYPES = (torch.bool, *INTEGERS, *FLOATS, *FLOAT8, *COMPLEX)
COMMON_DTYPES = (torch.uint8, torch.int64, torch.float32, torch.bfloat16)

OPS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")
PREMUL_FACTOR = 0.5


def torch_op(op: str) -> dist.ReduceOp:
    if op == "PREMUL_SUM":
        return torch._C._distributed_c10d._make_nccl_premul_sum(PREMUL_FACTOR)
    return getattr(dist.ReduceOp, op)


def has_meaning(op: str, dtype: torch.dtype) -> bool:
    if op in ("BAND", "BOR", "BXOR"):
        return dtype is torch.bool or dtype in INTEGERS
    if op in ("MIN", "MAX", "PRODUCT"):
        return dtype not in COMPLEX  # torch refuses PRODUCT of complex numbers for every backend
    if op == "AVG":
        return dtype is not torch.bool
    if op == "PREMUL_SUM":
        return dtype in FLOATS + FLOAT8 + COMPLEX
    return True


def supported_ops(dtype: torch.dtype) -> list[str]:
    return [op for op in OPS if has_meaning(op, dtype)]


def make_input(dtype: torch.dtype, count: int, rank: int, op: str = "SUM") -> torch.Tensor:
    if op == "AVG" and dtype not in INTEGERS:
        quotients = make_input(dtype, count, rank).to(torch.complex128)
        whole = quotients * dist.get_world_size()
        return (whole if dtype in COMPLEX else whole.real).to(dtype)
    generator = torch.Generator().manual_seed(1_000_003 * rank + count)

    def integers(low: int, high: int) -> torch.Tensor:
        return torch.randint(low, high, (count,), generator=generator)

    if dtype is torch.bool:
        return integers(0, 2).to(dtype)
    if dtype in COMPLEX:
        return torch.complex(integers(-7, 8).double(), integers(-7, 8).double()).to(dtype)
    if dtype in FLOAT8:
        return integers(1, 3).to(dtype) if op == "PRODUCT" else integers(0, 2).to(dtype)
    if op == "PRODUCT":
        return integers(1, 3).to(dtype)
    if op in ("BAND", "BOR", "BXOR"):
        return integers(0, 128).to(dtype)
    return integers(0 if dtype in UNSIGNED else -7, 8).to(dtype)


def reduced(inputs: Sequence[torch.Tensor], op: str) -> torch.Tensor:
    """What every rank must get, to the bit."""
    dtype = inputs[0].dtype
    if dtype is torch.bool:
        return _reduced_bool(torch.stack(list(inputs)), op)
    if dtype in COMPLEX:
        wide = torch.complex128
    else:
        wide = torch.int64 if dtype in INTEGERS else torch.float64
    values = [tensor.to(wide) for tensor in inputs]
    if op == "PREMUL_SUM":
        values = [value * PREMUL_FACTOR for value in values]
    if op == "AVG":
        total = sum(values[1:], values[0])
        if dtype in INTEGERS:
            return torch.div(total, len(inputs), rounding_mode="trunc").to(dtype)
        if dtype in COMPLEX:  # by parts: a complex division rounds otherwise
            total = torch.view_as_complex(torch.view_as_real(total) / len(inputs))
        else:
            total = total / len(inputs)
        return total.to(dtype)
    combine = {
        "SUM": torch.add,
        "PREMUL_SUM": torch.add,
        "PRODUCT": torch.mul,
        "MIN": torch.minimum,
        "MAX": torch.maximum,
        "BAND": torch.bitwise_and,
        "BOR": torch.bitwise_or,
        "BXOR": torch.bitwise_xor,
    }[op]
    return reduce(combine, values).to(dtype)


def _reduced_bool(stacked: torch.Tensor, op: str) -> torch.Tensor:
    if op in ("SUM", "MAX", "BOR"):
        return stacked.any(dim=0)
    if op in ("PRODUCT", "MIN", "BAND"):
        return stacked.all(dim=0)
    return stacked.sum(dim=0) % 2 == 1


def raw(tensor: torch.Tensor) -> bytes:
    plain = torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.detach().reshape(-1))
    return plain.view(torch.uint8).numpy().tobytes()


def assert_same(actual: torch.Tensor, expected: torch.Tensor, what: object) -> None:
    """Equal shape, dtype and bytes."""
    assert actual.dtype == expected.dtype, what
    assert actual.shape == expected.shape, (what, actual.shape, expected.shape)
    if raw(actual) != raw(expected):
        raise AssertionError(f"{what}:\n got {actual}\n not {expected}")


def counts(ranks: int) -> tuple[int, ...]:
    """0, 1, fewer than ranks, equal, odd, and more than one datagram."""
    return tuple(sorted({0, 1, 2, ranks - 1, ranks, ranks + 1, 17, 1000, 4099}))
