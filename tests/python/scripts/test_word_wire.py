# SPDX-License-Identifier: Apache-2.0
"""How two guests meet: no word is lost, however early it comes."""

from __future__ import annotations

import socket

import pytest
from word_wire import WordWire

pytestmark = pytest.mark.quick


def test_words_that_come_early_are_kept() -> None:
    one, other = socket.socketpair()
    with one, other:
        other.settimeout(60)
        one.sendall(b"done\naddress\n")  # both before the other end reads the first
        wire = WordWire(other)
        assert wire.swap("done") == "done"
        assert wire.swap("") == "address"
        assert one.recv(100, socket.MSG_PEEK).startswith(b"done\n")


def test_an_end_that_left_is_no_word() -> None:
    one, other = socket.socketpair()
    with other:
        one.sendall(b"half a wo")
        one.shutdown(socket.SHUT_WR)
        with pytest.raises(EOFError), one:
            WordWire(other).swap("done")
