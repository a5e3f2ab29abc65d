# SPDX-License-Identifier: Apache-2.0
"""Bulk TCP flows, to see how much of a path they leave to others: one end of them, until it is killed.

    bulk_flow.py receive ADDRESS FLOWS COUNTER   the file COUNTER has how many bytes have come
    bulk_flow.py send ADDRESS PORT FLOWS CONTROL

The receiver says its port, the sender `ready` when all flows are under way.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import selectors
import signal
import socket
import sys
from pathlib import Path

PIECE_BYTES = 1 << 20
CONNECT_LIMIT_S = 30
SET_PARENT_DEATH_SIGNAL = 1  # prctl(2)
COUNTER_BYTES = 8


def counter(path: Path) -> memoryview:
    """One number that a process writes and others read, both atomically."""
    with path.open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), COUNTER_BYTES)).cast("Q")


def receive(address: str, flows: int, path: Path) -> None:
    path.write_bytes(bytes(COUNTER_BYTES))
    count = counter(path)
    piece, total = bytearray(PIECE_BYTES), 0
    with socket.create_server((address, 0)) as listening, selectors.DefaultSelector() as selector:
        print(listening.getsockname()[1], flush=True)
        for _ in range(flows):
            selector.register(listening.accept()[0], selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                flow = key.fileobj
                assert isinstance(flow, socket.socket)
                if not (taken := flow.recv_into(piece)):  # the sender was killed first
                    selector.unregister(flow)
                total += taken
                count[0] = total


def connected(address: str, port: int, control: str) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
    made.settimeout(CONNECT_LIMIT_S)
    made.connect((address, port))
    made.setblocking(False)
    return made


def send(address: str, port: int, flows: int, control: str) -> None:
    piece = bytes(PIECE_BYTES)
    with selectors.DefaultSelector() as selector:
        for _ in range(flows):
            selector.register(connected(address, port, control), selectors.EVENT_WRITE)
        print("ready", flush=True)
        while True:
            for key, _ in selector.select():
                flow = key.fileobj
                assert isinstance(flow, socket.socket)
                with contextlib.suppress(BlockingIOError):  # the room was taken back
                    flow.send(piece)


def main(words: list[str]) -> None:
    ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    if words[0] == "receive":
        receive(words[1], int(words[2]), Path(words[3]))
    else:
        send(words[1], int(words[2]), int(words[3]), words[4])


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as error:
        sys.exit(f"bulk_flow: {error}")
