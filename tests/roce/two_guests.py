# SPDX-License-Identifier: Apache-2.0
"""Two ranks, each in a guest of its own: everything takes the wire, also what is not RoCE.

    two_guests.py together TRANSPORT...    all collectives over each of these
    two_guests.py killed TRANSPORT         guest 1 is gone at once: guest 0 names its rank in time

Both guests run the same command; they meet over TCP, as ranks do in a Store.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from collectives import check_blocks_of_different_sizes, check_every_collective
from core_alone import core
from job import Rank, drain_log, settings_of, warnings_of
from word_wire import WordWire

PORT = 29500
LIMIT_S = 300.0
NAMED_WITHIN_S = 60.0  # far below the limit of an operation
SIZES = (0, 1, 511, 30_011)


@contextmanager
def connected(number: int) -> Iterator[WordWire]:
    host = os.environ["SOFTROCE_ADDRESSES"].split()[0]
    if number == 0:
        with socket.create_server((host, PORT)) as server:
            server.settimeout(LIMIT_S)
            connection, _ = server.accept()
    else:
        deadline = time.monotonic() + LIMIT_S
        while True:
            try:
                connection = socket.create_connection((host, PORT), LIMIT_S)
                break
            except ConnectionRefusedError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
    connection.settimeout(LIMIT_S)
    with connection:
        yield WordWire(connection)


def join(number: int, transport: str, wire: WordWire) -> Rank:
    rank = Rank(number, 2)
    rank.runtime = core.Runtime(settings_of(number, 1, {"ROCECOLL_TRANSPORT": transport}))
    own = rank.runtime.address
    peer = wire.swap(own)
    rank.addresses = [own, peer] if number == 0 else [peer, own]
    key = transport.encode().ljust(16, b".")
    rank.group = rank.make_group(key)
    return rank


def together(number: int, transports: list[str], wire: WordWire) -> None:
    for transport in transports:
        started = time.monotonic()
        rank = join(number, transport, wire)
        for size in SIZES:
            check_every_collective(rank, size)
        check_blocks_of_different_sizes(rank)
        log = drain_log()
        assert any(severity == "info" and "RoCE" in text for severity, text in log), log
        assert not warnings_of(log), log
        wire.swap("done")
        rank.leave()
        print(f"{transport}: {time.monotonic() - started:.1f} s", flush=True)


def killed(number: int, transport: str, wire: WordWire) -> None:
    rank = join(number, transport, wire)
    kill_at = time.monotonic() + 1.0
    killed_at = 0.0
    try:
        while True:
            data = np.ones(50_000, np.float32)
            assert rank.group.all_reduce(data, "float32").wait(LIMIT_S)
            if number == 0 and not killed_at and time.monotonic() > kill_at:
                killed_at = time.monotonic()
                Path(os.environ["SOFTROCE_KILL"] + ".1").touch()
    except ConnectionError as error:
        seconds = time.monotonic() - killed_at
        print(f"after {seconds:.1f} s: {error}", flush=True)
        assert killed_at, "before anything happened"
        assert "rank 1 (" in str(error)
        assert seconds < NAMED_WITHIN_S


def main() -> None:
    number = int(os.environ["SOFTROCE_GUEST"])
    with connected(number) as wire:
        if sys.argv[1] == "together":
            together(number, sys.argv[2:], wire)
        else:
            killed(number, sys.argv[2], wire)


if __name__ == "__main__":
    main()
