# SPDX-License-Identifier: Apache-2.0
"""The tensors of a case on one rank, known numbers to fill them with, and the expected result."""

from __future__ import annotations

import torch

from rocecoll.bench.operations import Case, Operation, Place, Reduction

ROOT = 0
# Rank r has PATTERN[(r + i) % 3] at i: small numbers, whose sums are exact in every type, and each of
# which differs from its neighbours, so that a shifted result is noticed.
PATTERN = (1, 2, 3)


def values(rank: int, first: int, count: int, data_type: torch.dtype) -> torch.Tensor:
    """The numbers of `rank` from element `first` on."""
    pattern = torch.tensor(PATTERN, dtype=data_type)
    turned = pattern.roll(-((rank + first) % len(PATTERN)))
    return turned.repeat(count // len(PATTERN) + 1)[:count]


def reduced(case: Case, ranks: int, first: int, count: int, data_type: torch.dtype) -> torch.Tensor:
    """The reduction over all ranks; it repeats as the numbers do."""
    wide = torch.float64 if data_type.is_floating_point else torch.int64
    pattern = torch.stack([values(rank, first, len(PATTERN), wide) for rank in range(ranks)])
    if case.reduction is Reduction.min:
        pattern = pattern.amin(0)
    elif case.reduction is Reduction.max:
        pattern = pattern.amax(0)
    elif case.reduction is Reduction.prod:
        pattern = pattern.prod(0)
    else:
        pattern = pattern.sum(0)
    if case.reduction is Reduction.avg:
        rounding = None if data_type.is_floating_point else "trunc"
        pattern = pattern.div(ranks, rounding_mode=rounding)
    return pattern.to(data_type).repeat(count // len(PATTERN) + 1)[:count]


class Buffers:
    """`input` and `output` are the same memory in place. A rank that has none of either has it empty."""

    def __init__(self, case: Case, rank: int, ranks: int) -> None:
        self.case, self.rank, self.ranks = case, rank, ranks
        self.type = getattr(torch, case.data_type.value)
        self.block = case.block(ranks)
        operation, total = case.operation, case.elements(ranks)
        in_place = case.place is Place.in_place
        mine = slice(rank * self.block, (rank + 1) * self.block)
        is_root = rank == ROOT
        if operation is Operation.all_gather:
            self.output = self.zeros(total)
            self.input = self.output[mine] if in_place else self.zeros(self.block)
        elif operation is Operation.reduce_scatter:
            self.input = self.zeros(total)
            self.output = self.input[mine] if in_place else self.zeros(self.block)
        elif operation is Operation.gather:
            self.input, self.output = self.zeros(self.block), self.zeros(total if is_root else 0)
        elif operation is Operation.scatter:
            self.input, self.output = self.zeros(total if is_root else 0), self.zeros(self.block)
        else:
            self.input = self.zeros(total)
            self.output = self.input if in_place else self.zeros(total)

    def zeros(self, count: int) -> torch.Tensor:
        return torch.zeros(count, dtype=self.type)

    def blocks(self, whole: torch.Tensor) -> list[torch.Tensor] | None:
        """For calls that take a list on ranks that have something, and None on the others."""
        return list(torch.split(whole, self.block)) if len(whole) else None

    def clear(self) -> None:
        """Fills in zeros: repeated reductions of them stay zero."""
        self.input.zero_()
        self.output.zero_()

    def fill(self) -> None:
        self.clear()
        self.input.copy_(values(self.rank, 0, len(self.input), self.type))

    def expected(self) -> torch.Tensor:
        operation, count = self.case.operation, len(self.output)
        first = self.rank * self.block
        if operation in (Operation.all_reduce, Operation.reduce):
            return reduced(self.case, self.ranks, 0, count, self.type)
        if operation is Operation.reduce_scatter:
            return reduced(self.case, self.ranks, first, count, self.type)
        if operation in (Operation.all_gather, Operation.gather):
            return self.of_each(0)
        if operation is Operation.all_to_all:
            return self.of_each(first)
        if operation is Operation.scatter:
            return values(ROOT, first, count, self.type)
        sender = ROOT if operation is Operation.broadcast else (self.rank - 1) % self.ranks
        return values(sender, 0, count, self.type)

    def of_each(self, first: int) -> torch.Tensor:
        parts = [values(rank, first, self.block, self.type) for rank in range(self.ranks)]
        return torch.cat(parts)[: len(self.output)]

    def wrong(self) -> int:
        """How many elements are wrong after `fill` and one call."""
        if self.case.operation is Operation.reduce and self.rank != ROOT:
            return 0  # the result on the other ranks is not specified
        expected = self.expected()
        if self.case.reduction is Reduction.avg and self.type.is_floating_point:
            # A peer that divides before it adds rounds more than once.
            tolerance = 4 * self.ranks * torch.finfo(self.type).eps
            right = torch.isclose(self.output, expected, rtol=tolerance, atol=0)
            return int(len(right) - right.sum())
        return int((self.output != expected).sum())
