# SPDX-License-Identifier: Apache-2.0
"""One rank of OpenMPI, timed: mpirun ... openmpi_rank.py DIRECTORY.

Writes {bytes: seconds of each call} to RANK.json there; what ranks print, mpirun mixes.

OpenMPI is called by way of ctypes, so that it needs neither a compiler nor its headers here, and
pays for being called from Python as rocecoll does.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path

import numpy as np

from benchmarks import cases
from benchmarks.timing import seconds_of_calls


class Mpi:
    """OpenMPI's predefined handles are addresses of variables (its mpi.h)."""

    def __init__(self) -> None:
        # Global, because OpenMPI's plug-ins look for its symbols.
        self.library = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
        self.check(self.library.MPI_Init(None, None))
        self.world = self.handle("ompi_mpi_comm_world")
        self.float = self.handle("ompi_mpi_float")
        self.sum = self.handle("ompi_mpi_op_sum")

    def handle(self, name: str) -> ctypes.c_void_p:
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self.library, name)))

    def check(self, status: int) -> None:
        if status != 0:
            raise SystemExit(f"OpenMPI: error {status}")

    def all_reduce(self, mine: np.ndarray, total: np.ndarray) -> None:
        addresses = (ctypes.c_void_p(array.ctypes.data) for array in (mine, total))
        call = self.library.MPI_Allreduce
        self.check(call(*addresses, mine.size, self.float, self.sum, self.world))

    def barrier(self) -> None:
        self.check(self.library.MPI_Barrier(self.world))


def main(directory: Path) -> None:
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    # A device of its own for each, as with rocecoll: the data takes the wire between them.
    os.environ["UCX_NET_DEVICES"] = os.environ["SOFTROCE_DEVICES"].split()[rank] + ":1"
    mpi = Mpi()
    seconds = {
        size: seconds_of_calls(mpi.all_reduce, mpi.barrier, size, cases.all_reduce_calls(size))
        for size in cases.ALL_REDUCE.sizes_bytes
    }
    (directory / f"{rank}.json").write_text(json.dumps(seconds))
    mpi.check(mpi.library.MPI_Finalize())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
