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

# linux/in.h and linux/in6.h: never fragment what is sent, whatever MTU the kernel assumes for the path;
# and the MTU of the route of a connected socket.
_IP_MTU_DISCOVER, _IP_PMTUDISC_PROBE, _IP_MTU = 10, 3, 14
_IPV6_MTU_DISCOVER, _IPV6_MTU = 23, 24
_KEY_BYTES = 16
_HEADER = struct.Struct(f"!{_KEY_BYTES}sBIQ")  # key of the whole test, kind, rank, number
_LONGEST_DATAGRAM_BYTES = 65507
_BUFFER_BYTES = 4 << 20
_LOOK_S = 0.2  # how long the end of the thread may take

Target = tuple[str, int]


class Kind(IntEnum):
    """Datagrams of kind REQUEST are counted and answered, SIZE only answered, BULK only counted."""

    REQUEST = 1
    SIZE = 2
    REPLY = 3
    BULK = 4


@dataclass
class Bulk:
    """What arrived of a stream, from its first datagram to its last."""

    received_bytes: int = 0
    first_s: float = 0.0
    last_s: float = 0.0

    @property
    def bandwidth_mbit_s(self) -> float:
        """One datagram alone has no rate."""
        duration_s = self.last_s - self.first_s
        return self.received_bytes * 8 / duration_s / 1e6 if duration_s > 0 else 0.0


@dataclass
class Heard:
    """Requests by the rank that sent them, and when the echo of each of our own requests arrived."""

    requests: Counter[int] = field(default_factory=Counter)
    replies_s: dict[int, float] = field(default_factory=dict)
    bulks: dict[int, Bulk] = field(default_factory=dict)


class EchoSocket:
    """Bound to the address that other hosts use. A context manager; its thread answers meanwhile."""

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
        """Sends a datagram that asks for an answer; returns its number. OSError if the kernel refuses."""
        self._numbers += 1
        self._send(kind, self._numbers, target, size_bytes)
        return self._numbers

    def wait_for(self, numbers: Iterable[int], limit_s: float) -> None:
        """Waits until all of these have been echoed, up to `limit_s`."""
        wanted = set(numbers)
        with self._changed:
            self._changed.wait_for(lambda: wanted <= self.heard.replies_s.keys(), limit_s)

    def settle(self, limit_s: float) -> None:
        """Waits until all arrived datagrams are counted: one to ourselves is queued behind them."""
        with contextlib.suppress(OSError):  # a host that may not send cannot do so
            own: Target = self._socket.getsockname()[:2]
            self.wait_for([self.ask(Kind.SIZE, own, _HEADER.size)], limit_s)

    def stream(self, target: Target, size_bytes: int, duration_s: float) -> None:
        """Sends as fast as the kernel accepts; what it refuses in between counts as not sent."""
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
        if key != self.key:  # from another test, or from another program
            return
        if kind == Kind.BULK:
            bulk = self.heard.bulks.setdefault(rank, Bulk(first_s=now_s))
            if now_s > bulk.first_s:  # the time began with the first, so its bytes do not count
                bulk.received_bytes += len(datagram)
            bulk.last_s = now_s
        elif kind in (Kind.REQUEST, Kind.SIZE):
            if kind == Kind.REQUEST:
                self.heard.requests[rank] += 1
            # If we cannot answer a peer, our own requests to it show that.
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
    """Bytes of the IP and UDP headers."""
    return (40 if ":" in address else 20) + 8


def route_mtu_bytes(target: Target) -> int:
    """The MTU that this kernel assumes for the path; OSError without a route."""
    v6 = ":" in target[0]
    with socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(target)
        level, name = (socket.IPPROTO_IPV6, _IPV6_MTU) if v6 else (socket.IPPROTO_IP, _IP_MTU)
        return probe.getsockopt(level, name)
