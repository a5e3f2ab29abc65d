# SPDX-License-Identifier: Apache-2.0
"""Connects this terminal to a pseudo-terminal, for a shell in a guest."""

from __future__ import annotations

import os
import pty
import select
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from softroce_bed.bed import BedError
from softroce_bed.relay import READ_BYTES, write_all


@contextmanager
def connected() -> Iterator[int]:
    """A pseudo-terminal, which the caller closes. All keys go there, including those for signals."""
    keys, screen = sys.stdin.fileno(), sys.stdout.fileno()
    if not (os.isatty(keys) and os.isatty(screen)):
        raise BedError("a shell needs a terminal; use `run -- COMMAND` without one")
    master, slave = pty.openpty()
    stop_read, stop_write = os.pipe()

    def copy() -> None:
        while True:
            ready = select.select([keys, master, stop_read], [], [])[0]
            if master in ready:
                write_all(screen, os.read(master, READ_BYTES))
            elif stop_read in ready:
                return
            elif keys in ready:
                write_all(master, os.read(keys, READ_BYTES))

    copier = threading.Thread(target=copy, daemon=True)
    before = termios.tcgetattr(keys)
    try:
        tty.setraw(slave)
        tty.setraw(keys)
        copier.start()
        # Kept open here: if nobody had it open, reading `master` would fail.
        yield os.dup(slave)
    finally:
        os.write(stop_write, b"x")
        copier.join()
        termios.tcsetattr(keys, termios.TCSADRAIN, before)
        for fd in (master, slave, stop_read, stop_write):
            os.close(fd)
