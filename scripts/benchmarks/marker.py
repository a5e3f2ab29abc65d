# SPDX-License-Identifier: Apache-2.0
"""Marks packets (ECN, Congestion Experienced) that find a long queue at a shaped device.

Run in the device's namespace: marker.py DEVICE BYTES_PER_SECOND BURST_BYTES BUFFER_BYTES MARK_ABOVE_BYTES

Not every kernel has a qdisc that does so. A program of eBPF in front of the shaper (tcx, Linux 6.6) therefore
models the queue: the bytes that came, less those that have left at the shaper's rate. Packets that may
not be marked pass, and the shaper drops them once its buffer is full.
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import struct
import sys

SYSTEM_CALL = {"x86_64": 321, "aarch64": 280}
ATTRIBUTE_BYTES = 128
# linux/bpf.h
MAP_CREATE, PROG_LOAD, PROG_ATTACH = 0, 5, 8
MAP_TYPE_ARRAY, PROG_TYPE_SCHED_CLS, TCX_EGRESS = 2, 3, 47
PSEUDO_MAP_FD = 1
MAP_LOOKUP, CLOCK_NS, SET_CONGESTION_EXPERIENCED = 1, 5, 97
R0, R1, R2, SKB, FREE_AT, TIME, WAITS, FRAME = 0, 1, 2, 6, 7, 8, 9, 10
NS_PER_KIB_SHIFT = 10
GO_ON = -1  # TCX_NEXT


def instruction(code: int, to: int = 0, of: int = 0, offset: int = 0, number: int = 0) -> bytes:
    return struct.pack("<BBhi", code, to | of << 4, offset, number)


def call(function: int) -> bytes:
    return instruction(0x85, number=function)


def program(map_fd: int, ns_per_kib: int, full_ns: int, mark_ns: int) -> bytes:
    """`free_at` is when the last byte that has come will have left; a full queue takes no more."""
    mark = [
        instruction(0xBF, R1, SKB),
        call(SET_CONGESTION_EXPERIENCED),
    ]
    take = [
        instruction(0x61, R1, SKB),  # length
        instruction(0x27, R1, number=ns_per_kib),
        instruction(0x77, R1, number=NS_PER_KIB_SHIFT),
        instruction(0x0F, TIME, R1),
        instruction(0x7B, FREE_AT, TIME),
        instruction(0xB5, WAITS, offset=len(mark), number=mark_ns),  # at most: no mark
        *mark,
    ]
    book = [
        instruction(0xBF, FREE_AT, R0),
        call(CLOCK_NS),
        instruction(0x79, TIME, FREE_AT),
        instruction(0x3D, TIME, R0, offset=1),  # leaves now, unless others wait
        instruction(0xBF, TIME, R0),
        instruction(0xBF, WAITS, TIME),
        instruction(0x1F, WAITS, R0),
        instruction(0x25, WAITS, offset=len(take), number=full_ns),
        *take,
    ]
    return b"".join(
        [
            instruction(0xBF, SKB, R1),
            instruction(0x62, FRAME, offset=-4),  # the key: 0
            instruction(0x18, R1, PSEUDO_MAP_FD, number=map_fd) + instruction(0),
            instruction(0xBF, R2, FRAME),
            instruction(0x07, R2, number=-4),
            call(MAP_LOOKUP),
            instruction(0x15, R0, offset=len(book)),
            *book,
            instruction(0xB7, R0, number=GO_ON),
            instruction(0x95),
        ]
    )


def bpf(command: int, attribute: bytes) -> int:
    memory = ctypes.create_string_buffer(attribute, ATTRIBUTE_BYTES)
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.syscall(SYSTEM_CALL[platform.machine()], command, memory, ATTRIBUTE_BYTES)
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"bpf command {command}: {os.strerror(number)}")
    return int(done)


def attach(device: str, rate: int, burst: int, buffer: int, mark_above: int) -> None:
    """Attaches the program, which the kernel keeps as long as the device."""

    def waits_ns(queued: int) -> int:  # the shaper lets this much pass before anything queues
        return round((burst + queued) * 1e9 / rate)

    books = bpf(MAP_CREATE, struct.pack("<IIII", MAP_TYPE_ARRAY, 4, 8, 1))
    ns_per_kib = round((1 << NS_PER_KIB_SHIFT) * 1e9 / rate)
    code = program(books, ns_per_kib, waits_ns(buffer), waits_ns(mark_above))
    text = ctypes.create_string_buffer(code, len(code))
    license_ = ctypes.create_string_buffer(b"GPL")
    count = len(code) // len(instruction(0))
    where = (ctypes.addressof(text), ctypes.addressof(license_))
    loaded = bpf(PROG_LOAD, struct.pack("<IIQQ", PROG_TYPE_SCHED_CLS, count, *where))
    bpf(PROG_ATTACH, struct.pack("<III", socket.if_nametoindex(device), loaded, TCX_EGRESS))


if __name__ == "__main__":
    try:
        attach(sys.argv[1], *map(int, sys.argv[2:]))
    except (OSError, KeyError) as error:
        sys.exit(f"cannot mark packets here: {error!r}")
