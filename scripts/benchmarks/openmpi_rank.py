# SPDX-License-Identifier: Apache-2.0
"""One rank of OpenMPI, timed: mpirun ... openmpi_rank.py DIRECTORY.

Writes {bytes: seconds of each call} to RANK.json there; what ranks print, mpirun mixes.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path

import numpy as np

from benchmarks import cases
from benchmarks.openmpi_library import Mpi
from benchmarks.timing import seconds_of_calls
from rocecoll.bench import machine


def main(directory: Path) -> None:
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    # A device of its own for each, as with rocecoll: the data takes the wire between them.
    os.environ["UCX_NET_DEVICES"] = os.environ["SOFTROCE_DEVICES"].split()[rank] + ":1"
    mpi = Mpi()
    machine.stay_on_a_core(rank)
    float_, sum_ = mpi.handle("float"), mpi.handle("op_sum")

    def all_reduce(mine: np.ndarray, total: np.ndarray) -> None:
        addresses = (ctypes.c_void_p(array.ctypes.data) for array in (mine, total))
        mpi.bound("MPI_Allreduce", *addresses, mine.size, float_, sum_, mpi.world)()

    barrier = mpi.bound("MPI_Barrier", mpi.world)
    seconds = {
        size: seconds_of_calls(all_reduce, barrier, size, cases.all_reduce_calls(size))
        for size in cases.ALL_REDUCE.sizes_bytes
    }
    (directory / f"{rank}.json").write_text(json.dumps(seconds))
    mpi.bound("MPI_Finalize")()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
