# SPDX-License-Identifier: Apache-2.0
"""The other process of shared_memory.py, a program of its own: maps a memfd and fetches memory.

Arguments: the memfd's descriptor, and the process, address and text of the memory to fetch. Prints a
line for each thing that failed.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys


class _Slice(ctypes.Structure):
    """struct iovec"""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def map_memfd(descriptor: int, expected: bytes) -> str:
    try:
        with mmap.mmap(descriptor, len(expected)) as memory:
            return "" if memory[:] == expected else "other bytes"
    except OSError as error:
        return error.strerror or str(error)


def fetch(process: int, address: int, expected: bytes) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    into = ctypes.create_string_buffer(len(expected))
    local = _Slice(ctypes.addressof(into), len(expected))
    remote = _Slice(address, len(expected))
    read = libc.process_vm_readv(process, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
    if read < 0:
        return os.strerror(ctypes.get_errno())
    return "" if into.raw == expected else "other bytes"


if __name__ == "__main__":
    descriptor, process, address = map(int, sys.argv[1:4])
    expected = sys.argv[4].encode()
    if failure := map_memfd(descriptor, expected):
        print(f"memfd: {failure}")
    if failure := fetch(process, address, expected):
        print(f"fetch: {failure}")
