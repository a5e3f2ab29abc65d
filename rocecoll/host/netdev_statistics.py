# SPDX-License-Identifier: Apache-2.0
"""What the driver of a network interface counts, as `ethtool -S` lists it."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct

# linux/sockios.h and linux/ethtool.h
_SIOCETHTOOL = 0x8946
_GSTRINGS, _GSTATS, _GSSET_INFO = 0x1B, 0x1D, 0x37
_SS_STATS = 1
_NAME_BYTES = 32


def read_statistics(name: str) -> dict[str, int]:
    """Empty if there is no such interface, or if its driver has no counters of its own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            count = _count(any_socket, name)
            # The kernel fills in as many as exist by then, even beyond the room that we gave.
            room = 2 * count + 64
            strings = _ask(any_socket, name, struct.pack("III", _GSTRINGS, _SS_STATS, count), room)
            values = _ask(any_socket, name, struct.pack("II", _GSTATS, count), room)
        except OSError:
            return {}
    names = [
        strings[at : at + _NAME_BYTES].partition(b"\0")[0].decode(errors="replace")
        for at in range(12, 12 + count * _NAME_BYTES, _NAME_BYTES)
    ]
    return dict(zip(names, struct.unpack_from(f"{count}Q", values, 8), strict=True))


def _count(any_socket: socket.socket, name: str) -> int:
    answer = _ask(any_socket, name, struct.pack("IIQI", _GSSET_INFO, 0, 1 << _SS_STATS, 0), 0)
    return struct.unpack_from("I", answer, 16)[0] if struct.unpack_from("Q", answer, 8)[0] else 0


def _ask(any_socket: socket.socket, name: str, request: bytes, entries: int) -> bytes:
    """The request, with the answer in it and after it. OSError if the driver has none."""
    buffer = ctypes.create_string_buffer(request, len(request) + entries * _NAME_BYTES)
    pointer = struct.pack("16sP16x", name.encode(), ctypes.addressof(buffer))
    fcntl.ioctl(any_socket, _SIOCETHTOOL, pointer)
    return buffer.raw
