# SPDX-License-Identifier: Apache-2.0
"""OpenMPI as a peer in scripts/bench, over its own transports or over UCX; mpirun starts the ranks then."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

import torch

from benchmarks.openmpi_library import IN_PLACE, STATUS_IGNORE, Mpi
from rocecoll.bench.buffers import ROOT, Buffers
from rocecoll.bench.operations import REDUCING, Case, DataType, Operation, Place, Reduction

TCP, SHM, UCX = "mpi", "mpi-shm", "mpi-ucx"
# By the peer's name, the path between ranks of one host: TCP, for comparison with peers that use a network
# there, too; shared memory, its default; or the transports that UCX is told to use. OpenMPI does not start
# if the `pml` that is named cannot reach all ranks.
WAYS = {
    TCP: {"pml": "ob1", "btl": "tcp,self", "btl_tcp_if_include": "lo"},
    SHM: {"pml": "ob1", "btl": "vader,self"},
    UCX: {"pml": "ucx", "pml_ucx_tls": "any", "pml_ucx_devices": "any", "osc": "^ucx"},
}
UCX_OVER_TCP = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}
UCX_OVER_MEMORY = {"UCX_TLS": "posix,sysv,cma,self"}
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


def among(peers: list[str]) -> list[str]:
    """The names that are peers of OpenMPI."""
    return [name for name in peers if name in WAYS]


def environment(name: str, over_network: bool) -> dict[str, str]:
    """`over_network`: not through shared memory, if the name leaves that open."""
    if name != UCX:
        return {}
    return UCX_OVER_TCP if over_network else UCX_OVER_MEMORY


def command(name: str, ranks: int, program: list[str]) -> list[str]:
    mca = {"plm": "isolated", **WAYS[name]}
    settings = [word for key, value in mca.items() for word in ("--mca", key, value)]
    options = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    return ["mpirun", "-np", str(ranks), *options, *settings, *program]


def take_rank() -> None:
    """This process's place under mpirun, in the variables of torch's launchers."""
    for name in ("RANK", "LOCAL_RANK"):
        os.environ[name] = os.environ[f"OMPI_COMM_WORLD_{name}"]


def address(tensor: torch.Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


class MpiPeer:
    """An error in OpenMPI ends the run."""

    moves_data = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.mpi = Mpi()

    def supports(self, case: Case) -> bool:
        if case.operation is Operation.reduce_scatter and case.place is Place.in_place:
            return False  # MPI's output lies at the beginning of the input
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
