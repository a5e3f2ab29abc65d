# SPDX-License-Identifier: Apache-2.0
"""Words that two ends swap over a TCP connection, for ranks that have no Store to meet in."""

from __future__ import annotations

import socket


class WordWire:
    """Words sent come out at the peer, in order, also those that came before they were asked for.

    Reads and writes go through objects of their own: one text file for both ways forgets what it
    has read ahead whenever it is written to, and with it the word of a peer that was quick.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("r", encoding="ascii")

    def swap(self, word: str) -> str:
        """Both ends call it, which makes it a barrier, too. Raises EOFError once the peer has left."""
        self._connection.sendall(f"{word}\n".encode("ascii"))
        line = self._lines.readline()
        if not line.endswith("\n"):
            raise EOFError("the peer closed the connection")
        return line.removesuffix("\n")
