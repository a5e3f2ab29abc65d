# SPDX-License-Identifier: Apache-2.0
"""What there is to measure: operations, data types, reductions, and how bandwidth is counted.

Sizes and bandwidths are those of nccl-tests (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md). S is
the size of the whole vector: what a rank has to reduce, broadcast or send, all that it gathers, or
all that is scattered. With n ranks and a time t

    algbw = S / t
    busbw = algbw * factor, the factor being
            2 (n - 1) / n   all_reduce
            (n - 1) / n     reduce_scatter, all_gather, all_to_all, gather, scatter
            1               broadcast, reduce, send_recv

busbw can be compared with the bandwidth of a link, whatever n is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Operation(str, Enum):
    all_reduce = "all_reduce"
    reduce = "reduce"
    broadcast = "broadcast"
    all_gather = "all_gather"
    reduce_scatter = "reduce_scatter"
    all_to_all = "all_to_all"
    gather = "gather"
    scatter = "scatter"
    send_recv = "send_recv"  # each rank to the next one around a ring
    barrier = "barrier"


class DataType(str, Enum):
    """Called as in torch."""

    float32 = "float32"
    float64 = "float64"
    float16 = "float16"
    bfloat16 = "bfloat16"
    int8 = "int8"
    uint8 = "uint8"
    int32 = "int32"
    int64 = "int64"

    @property
    def bytes(self) -> int:
        return int("".join(filter(str.isdigit, self.value))) // 8


class Reduction(str, Enum):
    sum = "sum"
    prod = "prod"
    min = "min"
    max = "max"
    avg = "avg"


class Place(str, Enum):
    """Where the result is: where the input was, or elsewhere."""

    in_place = "in"
    out_of_place = "out"


REDUCING = (Operation.all_reduce, Operation.reduce, Operation.reduce_scatter)
TO_OTHERS = (Operation.send_recv,)  # torch has no message to oneself
OF_BLOCKS = (  # a block for each rank
    Operation.reduce_scatter,
    Operation.all_gather,
    Operation.all_to_all,
    Operation.gather,
    Operation.scatter,
)
# The first is the default. torch.distributed has no all_reduce out of place: there it is a copy, and
# then the call, as in torch's functional collectives.
PLACES = {
    Operation.all_reduce: (Place.in_place, Place.out_of_place),
    Operation.reduce: (Place.in_place,),
    Operation.broadcast: (Place.in_place,),
    Operation.all_gather: (Place.out_of_place, Place.in_place),
    Operation.reduce_scatter: (Place.out_of_place, Place.in_place),
    Operation.all_to_all: (Place.out_of_place,),
    Operation.gather: (Place.out_of_place,),
    Operation.scatter: (Place.out_of_place,),
    Operation.send_recv: (Place.out_of_place,),
    Operation.barrier: (Place.out_of_place,),
}


def bus_factor(operation: Operation, ranks: int) -> float:
    if operation is Operation.all_reduce:
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if operation in OF_BLOCKS else 1.0


@dataclass(frozen=True)
class Case:
    """One line of the table: `size_bytes` was asked for."""

    operation: Operation
    size_bytes: int
    data_type: DataType
    reduction: Reduction
    place: Place
    after_ms: float = 0.0  # how long each rank computes before each call

    @classmethod
    def read(cls, line: dict[str, Any]) -> Case:
        return cls(
            Operation(line["operation"]),
            line["size_bytes"],
            DataType(line["data_type"]),
            Reduction(line["reduction"]),
            Place(line["place"]),
            line["after_ms"],
        )

    def block(self, ranks: int) -> int:
        """Elements for each rank, at least one."""
        return max(1, self.size_bytes // self.data_type.bytes // ranks)

    def elements(self, ranks: int) -> int:
        """The bytes of the whole vector."""
        if self.operation is Operation.barrier:
            return 0
        if self.operation in OF_BLOCKS:
            return self.block(ranks) * ranks
        return max(1, self.size_bytes // self.data_type.bytes)

    def bytes(self, ranks: int) -> int:
        """The bytes that are really moved: of whole elements, in blocks of equal size."""
        return self.elements(ranks) * self.data_type.bytes

    @property
    def kind(self) -> str:
        if self.operation is Operation.barrier:
            return ""
        name = self.data_type.value
        return f"{name} {self.reduction.value}" if self.operation in REDUCING else name


def cases(
    operations: Sequence[Operation],
    sizes_bytes: Sequence[int],
    data_types: Sequence[DataType],
    reductions: Sequence[Reduction],
    places: Sequence[Place] | None,
    after_ms: Sequence[float] = (0.0,),
) -> list[Case]:
    """All combinations, each once, without places that an operation does not have."""
    found = [
        Case(operation, size_bytes, data_type, reduction, place, pause)
        for pause in after_ms
        for operation in operations
        for data_type in data_types
        for reduction in (reductions if operation in REDUCING else reductions[:1])
        for place in (PLACES[operation][:1] if places is None else places)
        if place in PLACES[operation]
        for size_bytes in (sizes_bytes if operation is not Operation.barrier else [0])
    ]
    return list(dict.fromkeys(found))
