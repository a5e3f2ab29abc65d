# SPDX-License-Identifier: Apache-2.0
"""Every collective, reduction and dtype: the bytes that the CPU gives, and that arithmetic gives."""

from __future__ import annotations

import exact
import torch
import torch.distributed as dist
from device_operations import OPERATIONS, Maker

from gpu_parts.rank import Rank

MIB = 1 << 20
SIZES_BYTES = (0, 1, 4096)
LANES_BYTES = (520_000, 3 * MIB)  # a lane and some, and several: no matter of the dtype
# The tensors of one rank are added by torch, which does not add every dtype.
SUMS_BY_TORCH = "all_reduce_of_a_list"
ADDED_BY_TORCH = (*exact.SIGNED, torch.uint8, *exact.FLOATS, *exact.COMPLEX)
LARGEST_BYTES = 256 * MIB


def run(rank: Rank) -> None:
    rank.join()
    cases = reductions(rank) + operations(rank)
    largest = 0 if rank.small else large(rank)
    objects(rank)
    dist.barrier()
    dist.destroy_process_group()
    rank.tell("cases", cases)
    if largest:
        rank.tell("up to", f"{largest // MIB} MiB")


def counts(rank: Rank, dtype: torch.dtype) -> list[int]:
    """Of elements, each once."""
    many = not rank.small and dtype in exact.COMMON_DTYPES
    sizes = SIZES_BYTES + (LANES_BYTES if many else ())
    return sorted({-(-size // dtype.itemsize) for size in sizes})


def dtypes(rank: Rank) -> tuple[torch.dtype, ...]:
    return exact.COMMON_DTYPES if rank.small else exact.DTYPES


def reductions(rank: Rank) -> int:
    """all_reduce with every operation that has a meaning: in no two is the arithmetic the same."""
    cases = 0
    for dtype in dtypes(rank):
        for op in exact.supported_ops(dtype):
            for count in counts(rank, dtype):
                inputs = [exact.make_input(dtype, count, peer, op) for peer in range(rank.size)]
                tensor = rank.device.put(inputs[rank.number])
                dist.all_reduce(tensor, exact.torch_op(op))
                rank.same(tensor, exact.reduced(inputs, op), "all_reduce", op, dtype, count)
                cases += 1
    return cases


def operations(rank: Rank) -> int:
    """The others, of dense and strided tensors, beside the same on tensors of the CPU."""
    cases = 0
    for name in OPERATIONS:
        for dtype in dtypes(rank):
            if name == SUMS_BY_TORCH and dtype not in ADDED_BY_TORCH:
                continue
            for count in counts(rank, dtype):
                for strided in (False, True):
                    compare(rank, name, dtype, count, strided)
                    cases += 1
    return cases


def compare(rank: Rank, name: str, dtype: torch.dtype, count: int, strided: bool) -> None:
    makers = [Maker(place, dtype, strided) for place in (rank.device.torch, torch.device("cpu"))]
    for make in makers:
        OPERATIONS[name](make, count)
    what = (name, dtype, count, "strided" if strided else "dense")
    for ours, expected in zip(*(make.results for make in makers), strict=True):
        rank.expect(ours.device == rank.device.torch, *what, "is on", ours.device)
        rank.same(ours, expected, *what)


def large(rank: Rank) -> int:
    """Few operations, large; the most bytes that there was time for."""
    size, done = 16 * MIB, 0
    while size <= LARGEST_BYTES and agreed(rank.left_s > 20):
        for name in ("all_reduce", "broadcast", "send_recv"):
            compare(rank, name, torch.float32, size // 4, strided=False)
        for name in ("all_gather_into_tensor", "reduce_scatter_tensor"):
            compare(rank, name, torch.float32, size // 4 // rank.size, strided=False)
        done, size = size, 4 * size
    return done


def agreed(mine: bool) -> bool:
    """Whether all ranks say so."""
    told = torch.tensor([int(mine)])
    dist.all_reduce(told, dist.ReduceOp.MIN)
    return bool(told.item())


def objects(rank: Rank) -> None:
    got: list[object] = [None] * rank.size
    dist.all_gather_object(got, {"rank": rank.number})
    rank.expect(got == [{"rank": peer} for peer in range(rank.size)], "all_gather_object", got)
    told = [{"a": 1}] if rank.number == 0 else [None]
    dist.broadcast_object_list(told, 0)
    rank.expect(told == [{"a": 1}], "broadcast_object_list", told)
