# SPDX-License-Identifier: Apache-2.0
"""Passes on the output of pipes as it arrives."""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable

Sink = Callable[[bytes], None]
READ_BYTES = 65536


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class Relay:
    def __init__(self, prefixed: bool) -> None:
        """With `prefixed`, lines begin with the number of the guest that wrote them."""
        self.prefixed = prefixed
        self.selector = selectors.DefaultSelector()
        self.held: list[tuple[int, bytearray, int]] = []  # lines that have not ended

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *unused: object) -> None:
        for key in list(self.selector.get_map().values()):
            self.selector.unregister(key.fileobj)
            os.close(key.fd)
        self.selector.close()

    def pipe(self, sink: Sink) -> int:
        """The write end of a new pipe, which the caller closes."""
        read, write = os.pipe()
        self.selector.register(read, selectors.EVENT_READ, sink)
        return write

    def writer(self, guest: int, fd: int) -> Sink:
        if not self.prefixed:
            return lambda data: write_all(fd, data)
        line = bytearray()
        self.held.append((guest, line, fd))

        def by_line(data: bytes) -> None:
            line.extend(data)
            *whole, rest = bytes(line).split(b"\n")
            line[:] = rest
            for text in whole:
                write_all(fd, b"[%d] %s\n" % (guest, text))

        return by_line

    def pump(self) -> None:
        """Returns when all writers of every pipe have closed it."""
        while self.selector.get_map():
            for key, _ in self.selector.select():
                data = os.read(key.fd, READ_BYTES)
                if data:
                    key.data(data)
                else:
                    self.selector.unregister(key.fileobj)
                    os.close(key.fd)
        for guest, line, fd in self.held:
            if line:
                write_all(fd, b"[%d] %s\n" % (guest, bytes(line)))
