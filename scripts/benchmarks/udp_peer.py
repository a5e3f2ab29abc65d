# SPDX-License-Identifier: Apache-2.0
"""The kernel's limit: udp_limit.cc as a peer, which can only sum float32 of two ranks in place."""

from __future__ import annotations

import ctypes
import socket
from collections.abc import Callable
from pathlib import Path

import torch.distributed as dist

from benchmarks import native
from rocecoll.bench.buffers import Buffers
from rocecoll.bench.operations import Case, DataType, Operation, Place, Reduction

NAME = "raw-udp"
LIBRARY = "udp_limit"
# linux/udp.h; Python's socket module has no names for them.
UDP_SEGMENT, UDP_GRO = 103, 104
HEADER_BYTES = 28  # IPv4 and UDP
MOST_DATAGRAM_BYTES, MOST_SEND_BYTES, MOST_SEGMENTS = 65507, 65000, 64
BUFFER_BYTES = 4 << 20  # as rocecoll asks for
MOST_WINDOW_BYTES = 512 << 10
ELEMENT_BYTES = 4
# Vectors of up to this size are exchanged whole; of larger ones each rank adds one half.
WHOLE_BYTES = 32 << 10


def datagram_bytes(interface: str) -> int:
    mtu = int(Path("/sys/class/net", interface, "mtu").read_text())
    most = min(MOST_DATAGRAM_BYTES, mtu - HEADER_BYTES)
    return most // ELEMENT_BYTES * ELEMENT_BYTES


class UdpPeer:
    name = NAME
    moves_data = True

    def __init__(self, address: str, interface: str) -> None:
        self.address, self.interface = address, interface
        self.library = ctypes.CDLL(str(native.library(LIBRARY)))
        self.sockets: list[socket.socket] = []
        self.chunk_bytes = self.window_bytes = 0

    def supports(self, case: Case) -> bool:
        can = (Operation.all_reduce, DataType.float32, Reduction.sum, Place.in_place)
        asked = (case.operation, case.data_type, case.reduction, case.place)
        return asked == can

    def open(self) -> None:
        if self.sockets:
            return
        datagram = datagram_bytes(self.interface)
        self.chunk_bytes = datagram * max(1, min(MOST_SEGMENTS, MOST_SEND_BYTES // datagram))
        self.sockets = [self.bound(datagram) for _ in range(2)]
        mine = [one.getsockname() for one in self.sockets]
        everybody: list[list[tuple[str, int]]] = [[], []]
        dist.all_gather_object(everybody, mine)
        for one, address in zip(self.sockets, everybody[1 - dist.get_rank()], strict=True):
            one.connect(address)
        # The kernel reports twice the size, and also counts its own overhead of each datagram.
        room = self.sockets[0].getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        self.window_bytes = min(MOST_WINDOW_BYTES, room // 8)

    def bound(self, datagram: int) -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind((self.address, 0))
        for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            made.setsockopt(socket.SOL_SOCKET, buffer, BUFFER_BYTES)
        if self.chunk_bytes > datagram:
            made.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, datagram)
        made.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        return made

    def close(self) -> None:
        self.drop()

    def drop(self) -> None:
        for one in self.sockets:
            one.close()
        self.sockets = []

    def call(self, buffers: Buffers) -> Callable[[], None]:
        ways = [one.fileno() for one in self.sockets]
        sizes = (ctypes.c_size_t(self.chunk_bytes), ctypes.c_size_t(self.window_bytes))
        data, count = ctypes.c_void_p(buffers.output.data_ptr()), len(buffers.output)
        what = (data, ctypes.c_size_t(count))
        whole, halves = self.library.UdpAllReduceWhole, self.library.UdpAllReduceHalves

        def run_whole() -> None:
            checked(whole(ways[0], *sizes, *what))
            ways.reverse()

        def run_halves() -> None:
            checked(halves(*ways, *sizes, buffers.rank, *what))

        return run_whole if count * ELEMENT_BYTES <= WHOLE_BYTES else run_halves


def checked(status: int) -> None:
    if status != 0:
        raise RuntimeError("a datagram was lost, and nobody sends it again")
