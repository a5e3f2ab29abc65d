# SPDX-License-Identifier: Apache-2.0
"""OpenMPI over TCP or shared memory as a peer in scripts/bench; mpirun starts the ranks then."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

import torch

from benchmarks.openmpi_library import IN_PLACE, STATUS_IGNORE, Mpi
from rocecoll.bench.buffers import ROOT, Buffers
from rocecoll.bench.operations import REDUCING, Case, DataType, Operation, Place, Reduction

# By the peer's name, the way between ranks of one host: TCP, to be compared with what uses a network
# there, too, or shared memory, as it takes by itself.
NETWORKS = {"mpi": "tcp,self", "mpi-shm": "vader,self"}
MCA = {"plm": "isolated", "pml": "ob1", "btl_tcp_if_include": "lo"}
TYPES = {
    DataType.float32: "float",
    DataType.float64: "double",
    DataType.float16: "int16_t",  # it can move these, not reduce them
    DataType.bfloat16: "int16_t",
    DataType.int8: "int8_t",
    DataType.uint8: "uint8_t",
    DataType.int32: "int32_t",
    DataType.int64: "int64_t",
}
REDUCTIONS = (Reduction.sum, Reduction.prod, Reduction.min, Reduction.max)


def among(peers: list[str]) -> str | None:
    """The one of these that is OpenMPI."""
    return next((name for name in peers if name in NETWORKS), None)


def command(name: str, ranks: int, program: list[str]) -> list[str]:
    mca = MCA | {"btl": NETWORKS[name]}
    settings = [word for key, value in mca.items() for word in ("--mca", key, value)]
    options = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    return ["mpirun", "-np", str(ranks), *options, *settings, *program]


def take_rank() -> None:
    """Where mpirun has put this process, in the words of torch's launchers."""
    for name in ("RANK", "LOCAL_RANK"):
        os.environ[name] = os.environ[f"OMPI_COMM_WORLD_{name}"]


def address(tensor: torch.Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


class MpiPeer:
    """What goes wrong in it ends the run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.mpi = Mpi()

    def supports(self, case: Case) -> bool:
        if case.operation is Operation.reduce_scatter and case.place is Place.in_place:
            return False  # MPI's lies at the beginning of the input
        moves_only = TYPES[case.data_type] == "int16_t"
        reduces = not moves_only and case.reduction in REDUCTIONS
        return reduces or case.operation not in REDUCING

    def open(self) -> None:
        pass

    def drop(self) -> None:
        pass

    def close(self) -> None:
        self.mpi.bound("MPI_Finalize")()

    def call(self, buffers: Buffers) -> Callable[[], None]:
        world, case = self.mpi.world, buffers.case
        mine, result = address(buffers.input), address(buffers.output)
        kind, reduction = self.mpi.handle(TYPES[case.data_type]), None
        if case.operation in REDUCING:
            reduction = self.mpi.handle(f"op_{case.reduction.value}")
        in_place = case.place is Place.in_place
        given = IN_PLACE if in_place else mine
        all_of_it, block = (len(buffers.input), kind), (buffers.block, kind)
        arguments = {
            Operation.all_reduce: ("Allreduce", given, result, *all_of_it, reduction),
            Operation.reduce: (
                "Reduce",
                IN_PLACE if buffers.rank == ROOT else mine,
                *(result, *all_of_it, reduction, ROOT),
            ),
            Operation.broadcast: ("Bcast", mine, *all_of_it, ROOT),
            Operation.all_gather: ("Allgather", given, *block, result, *block),
            Operation.reduce_scatter: ("Reduce_scatter_block", mine, result, *block, reduction),
            Operation.all_to_all: ("Alltoall", mine, *block, result, *block),
            Operation.gather: ("Gather", mine, *block, result, *block, ROOT),
            Operation.scatter: ("Scatter", mine, *block, result, *block, ROOT),
            Operation.send_recv: (
                *("Sendrecv", mine, *all_of_it, (buffers.rank + 1) % buffers.ranks, 0),
                *(result, *all_of_it, (buffers.rank - 1) % buffers.ranks, 0),
            ),
            Operation.barrier: ("Barrier",),
        }
        name, *rest = arguments[case.operation]
        status = [STATUS_IGNORE] if case.operation is Operation.send_recv else []
        return self.mpi.bound(f"MPI_{name}", *rest, world, *status)
