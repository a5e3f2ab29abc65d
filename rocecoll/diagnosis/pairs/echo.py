# SPDX-License-Identifier: Apache-2.0
"""One UDP socket that asks others for echoes, and answers and counts what they send."""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

# linux/in.h and linux/in6.h: what is sent is never fragmented, whatever the kernel believes of the
# path; and the MTU of the route of a connected socket.
_IP_MTU_DISCOVER, _IP_PMTUDISC_PROBE, _IP_MTU = 10, 3, 14
_IPV6_MTU_DISCOVER, _IPV6_MTU = 23, 24
_KEY_BYTES = 16
_HEADER = struct.Struct(f"!{_KEY_BYTES}sBIQ")  # of the whole test, kind, rank, number
_LONGEST_DATAGRAM_BYTES = 65507
_BUFFER_BYTES = 4 << 20
_LOOK_S = 0.2  # how long the end of the thread may take

Target = tuple[str, int]


class Kind(IntEnum):
    """Requests are counted and answered, sizes only answered, bulk only counted."""

    REQUEST = 1
    SIZE = 2
    REPLY = 3
    BULK = 4


@dataclass
class Bulk:
    """What came of a stream, from its first datagram to its last."""

    received_bytes: int = 0
    first_s: float = 0.0
    last_s: float = 0.0

    @property
    def bandwidth_mbit_s(self) -> float:
        """Of one datagram nothing can be said."""
        duration_s = self.last_s - self.first_s
        return self.received_bytes * 8 / duration_s / 1e6 if duration_s > 0 else 0.0


@dataclass
class Heard:
    """Requests by the rank that sent them, and when the echo of each own request came."""

    requests: Counter[int] = field(default_factory=Counter)
    replies_s: dict[int, float] = field(default_factory=dict)
    bulks: dict[int, Bulk] = field(default_factory=dict)


class EchoSocket:
    """Bound to the address that other hosts are told; a context, in which its thread answers."""

    def __init__(self, address: str, ports: tuple[int, int], rank: int, key: bytes) -> None:
        self.rank = rank
        self.key = key
        self.heard = Heard()
        self._numbers = 0
        self._changed = threading.Condition()
        self._ended = False
        self._socket = _open(address, ports)
        self._thread = threading.Thread(target=self._serve, name="echo", daemon=True)

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def __enter__(self) -> EchoSocket:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended = True
        self._thread.join()
        self._socket.close()

    def ask(self, kind: Kind, target: Target, size_bytes: int) -> int:
        """Sends what is to be answered, and returns its number; OSError where the kernel refuses."""
        self._numbers += 1
        self._send(kind, self._numbers, target, size_bytes)
        return self._numbers

    def wait_for(self, numbers: Iterable[int], limit_s: float) -> None:
        """Until all of these were echoed, at most so long."""
        wanted = set(numbers)
        with self._changed:
            self._changed.wait_for(lambda: wanted <= self.heard.replies_s.keys(), limit_s)

    def settle(self, limit_s: float) -> None:
        """Until all that has arrived is counted: a datagram to ourselves comes behind it."""
        with contextlib.suppress(OSError):  # who may not send at all has no such way
            own: Target = self._socket.getsockname()[:2]
            self.wait_for([self.ask(Kind.SIZE, own, _HEADER.size)], limit_s)

    def stream(self, target: Target, size_bytes: int, duration_s: float) -> None:
        """As fast as the kernel takes it: what it refuses in between counts as not sent."""
        end = time.monotonic() + duration_s
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                self._send(Kind.BULK, 0, target, size_bytes)

    def _send(self, kind: Kind, number: int, target: Target, size_bytes: int) -> None:
        header = _HEADER.pack(self.key, kind, self.rank, number)
        self._socket.sendto(header.ljust(size_bytes, b"\0"), target)

    def _serve(self) -> None:
        while not self._ended:
            try:
                datagram, source = self._socket.recvfrom(_LONGEST_DATAGRAM_BYTES)
            except TimeoutError:
                continue
            if len(datagram) >= _HEADER.size:
                self._take(datagram, source[:2], time.monotonic())

    def _take(self, datagram: bytes, source: Target, now_s: float) -> None:
        key, kind, rank, number = _HEADER.unpack_from(datagram)
        if key != self.key:  # of another test, or of somebody else
            return
        if kind == Kind.BULK:
            bulk = self.heard.bulks.setdefault(rank, Bulk(first_s=now_s))
            if now_s > bulk.first_s:  # what it came with is not of the time that it took
                bulk.received_bytes += len(datagram)
            bulk.last_s = now_s
        elif kind in (Kind.REQUEST, Kind.SIZE):
            if kind == Kind.REQUEST:
                self.heard.requests[rank] += 1
            # Whom we cannot answer shows when we ask in turn.
            with contextlib.suppress(OSError):
                self._send(Kind.REPLY, number, source, _HEADER.size)
        elif kind == Kind.REPLY:
            with self._changed:
                self.heard.replies_s.setdefault(number, now_s)
                self._changed.notify_all()


def _open(address: str, ports: tuple[int, int]) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET6:
        opened.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _IP_PMTUDISC_PROBE)
    else:
        opened.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_PROBE)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    opened.settimeout(_LOOK_S)
    for port in range(ports[0], ports[1] + 1):
        try:
            opened.bind((address, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE or port == ports[1]:
                opened.close()
                raise
        else:
            break
    return opened


def headers_bytes(address: str) -> int:
    """Of IP and UDP."""
    return (40 if ":" in address else 20) + 8


def route_mtu_bytes(target: Target) -> int:
    """What the own kernel believes of the way there; OSError without a route."""
    v6 = ":" in target[0]
    with socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(target)
        level, name = (socket.IPPROTO_IPV6, _IPV6_MTU) if v6 else (socket.IPPROTO_IP, _IP_MTU)
        return probe.getsockopt(level, name)
