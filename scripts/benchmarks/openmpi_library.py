# SPDX-License-Identifier: Apache-2.0
"""OpenMPI through ctypes, which needs neither a compiler nor OpenMPI's headers. Calls from Python cost it
as much as they cost rocecoll."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

IN_PLACE = ctypes.c_void_p(1)  # MPI_IN_PLACE
STATUS_IGNORE = None


class Mpi:
    """OpenMPI's predefined handles are addresses of variables (its mpi.h)."""

    def __init__(self) -> None:
        # Global, because OpenMPI's plug-ins look for its symbols.
        self.library = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
        self.bound("MPI_Init", None, None)()
        self.world = self.handle("comm_world")

    def handle(self, name: str) -> ctypes.c_void_p:
        variable = ctypes.c_char.in_dll(self.library, f"ompi_mpi_{name}")
        return ctypes.c_void_p(ctypes.addressof(variable))

    def bound(self, name: str, *arguments: Any) -> Callable[[], None]:
        """Makes a call with these arguments; a failure ends the program, and with it all ranks."""
        call = getattr(self.library, name)

        def run() -> None:
            if (status := call(*arguments)) != 0:
                raise SystemExit(f"OpenMPI: {name}: error {status}")

        return run
