# SPDX-License-Identifier: Apache-2.0
"""pyverbs as an independent witness: what a device offers, and packets of our own making.

To be called in a process of its own (`apart`): libibverbs has no place in one that forks ranks.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bed import End

PACKAGES = Path("/usr/lib/python3/dist-packages")  # of Debian's python3-pyverbs
LIMIT_S = 200.0
ROCE_PORT = 4791
UD_SEND_WITH_IMMEDIATE = 0x65  # opcode of the BTH
ETH_BYTES, IP_BYTES, UDP_BYTES, ICRC_BYTES = 14, 20, 8, 4
HEADER_BYTES = 12 + 8 + 4  # BTH, DETH, immediate


def make_importable() -> None:
    """Alone: other packages there are for the system's Python."""
    if "pyverbs" in sys.modules or not (PACKAGES / "pyverbs").is_dir():
        return
    directory = Path(tempfile.mkdtemp(prefix="pyverbs-"))
    (directory / "pyverbs").symlink_to(PACKAGES / "pyverbs")
    sys.path.append(str(directory))


def skip_without_pyverbs() -> None:
    make_importable()
    try:
        apart(importlib.import_module, "pyverbs.device", returns=False)
    except Exception as error:
        pytest.skip(f"no pyverbs for this Python ({error}): install python3-pyverbs")


def apart(function: Callable[..., Any], *arguments: Any, returns: bool = True) -> Any:
    """function(*arguments) in a process of its own."""
    here, there = multiprocessing.get_context("fork").Pipe()

    def main() -> None:
        try:
            value = function(*arguments)
            there.send((True, value if returns else None))
        except BaseException as error:
            there.send((False, f"{type(error).__name__}: {error}"))

    process = multiprocessing.get_context("fork").Process(target=main, daemon=True)
    process.start()
    there.close()
    try:
        if not here.poll(LIMIT_S):
            raise TimeoutError(f"{function.__name__} takes more than {LIMIT_S:g} s")
        good, value = here.recv()
    finally:
        process.kill()
        process.join()
    if not good:
        raise RuntimeError(value)
    return value


@dataclass(frozen=True)
class Offer:
    """What the device says of itself."""

    gids: dict[int, tuple[str, str]]  # index to address and type
    active_mtu_bytes: int
    max_message_bytes: int
    max_queue_pair_requests: int
    max_shared_requests: int


def offer(device: str) -> Offer:
    from pyverbs import enums
    from pyverbs.device import Context

    with Context(name=device) as context:
        port, limits = context.query_port(1), context.query_device()
        gids = {}
        for index in range(16):  # the table has 1024 entries, the first few are used
            address = str(context.query_gid(1, index))
            if address.strip("0:"):
                kind = context.query_gid_type(1, index)
                is_v2 = kind == enums.IBV_GID_TYPE_SYSFS_ROCE_V2
                gids[index] = (address, "RoCE v2" if is_v2 else "other")
        return Offer(
            gids=gids,
            active_mtu_bytes=128 << port.active_mtu,
            max_message_bytes=port.max_msg_sz,
            max_queue_pair_requests=limits.max_qp_wr,
            max_shared_requests=limits.max_srq_wr,
        )


@dataclass(frozen=True)
class Datagram:
    """A UD message with immediate, as it was on the wire."""

    address: str  # where to
    destination: int  # queue pair
    queue_key: int
    immediate: int
    payload: bytes


def parse_datagram(frame: bytes) -> Datagram | None:
    """RoCE v2 over IPv4; None if it is anything else (InfiniBand specification, volume 1, 9.2)."""
    if len(frame) < ETH_BYTES + IP_BYTES + UDP_BYTES + HEADER_BYTES + ICRC_BYTES:
        return None
    ip, udp = frame[ETH_BYTES:], frame[ETH_BYTES + IP_BYTES :]
    if frame[12:14] != b"\x08\x00" or ip[0] != 0x45 or ip[9] != socket.IPPROTO_UDP:
        return None
    port, length = struct.unpack_from(">2xHH", udp)
    opcode, flags, destination, key, immediate = struct.unpack_from(">BB2xI4xI4xI", udp, UDP_BYTES)
    if port != ROCE_PORT or opcode != UD_SEND_WITH_IMMEDIATE:
        return None
    padding = flags >> 4 & 3
    payload = udp[UDP_BYTES + HEADER_BYTES : length - ICRC_BYTES - padding]
    address = socket.inet_ntoa(ip[16:20])
    return Datagram(address, destination & 0xFFFFFF, key, immediate, payload)


class Tap:
    """The UD messages on the wire from now on, seen without the help of any RDMA library."""

    BUFFER_BYTES = 64 << 20
    EVERY_PROTOCOL = 3

    def __init__(self, interface: str) -> None:
        self._packets = socket.socket(
            socket.AF_PACKET, socket.SOCK_RAW, socket.htons(self.EVERY_PROTOCOL)
        )
        so_rcvbufforce = 33
        self._packets.setsockopt(socket.SOL_SOCKET, so_rcvbufforce, self.BUFFER_BYTES)
        self._packets.bind((interface, 0))

    def __enter__(self) -> Tap:
        return self

    def __exit__(self, *_: object) -> None:
        self._packets.close()

    def take(self) -> list[Datagram]:
        """Those that have passed since the last call."""
        found = []
        self._packets.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                found.append(parse_datagram(self._packets.recv(65536)))
        return [datagram for datagram in found if datagram is not None]


def send_datagrams(here: End, datagrams: list[Datagram]) -> None:
    """From a queue pair of our own."""
    from pyverbs import enums
    from pyverbs.addr import AH, AHAttr, GlobalRoute
    from pyverbs.cq import CQ
    from pyverbs.device import Context
    from pyverbs.mr import MR
    from pyverbs.pd import PD
    from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
    from pyverbs.wr import SGE, SendWR

    with Context(name=here.device) as context, PD(context) as domain:
        completions = CQ(context, 16)
        capacity = QPCap(max_send_wr=16, max_recv_wr=1, max_send_sge=1, max_recv_sge=1)
        initial = QPInitAttr(
            qp_type=enums.IBV_QPT_UD, scq=completions, rcq=completions, cap=capacity
        )
        attributes = QPAttr(port_num=1)
        attributes.qkey = 1  # what it accepts; nobody sends to it
        with QP(domain, initial, attributes) as queue_pair:
            memory = MR(domain, 4096, enums.IBV_ACCESS_LOCAL_WRITE)
            for datagram in datagrams:
                route = GlobalRoute(dgid=gid_of(datagram.address), sgid_index=here.gid_index)
                handle = AH(domain, attr=AHAttr(gr=route, is_global=1, port_num=1))
                memory.write(datagram.payload, len(datagram.payload))
                piece = SGE(memory.buf, len(datagram.payload), memory.lkey)
                request = SendWR(
                    num_sge=1,
                    sg=[piece],
                    opcode=enums.IBV_WR_SEND_WITH_IMM,
                    send_flags=enums.IBV_SEND_SIGNALED,
                    imm_data=socket.htonl(datagram.immediate),
                )
                request.set_wr_ud(handle, datagram.destination, datagram.queue_key)
                queue_pair.post_send(request)
                await_completion(completions)


def gid_of(address: str) -> Any:
    from pyverbs.addr import GID

    high, low = struct.unpack(">HH", socket.inet_aton(address))
    return GID(f"0000:0000:0000:0000:0000:ffff:{high:04x}:{low:04x}")


def await_completion(completions: Any) -> None:
    deadline = time.monotonic() + LIMIT_S
    while True:
        count, entries = completions.poll()
        if count:
            assert entries[0].status == 0, entries[0]
            return
        assert time.monotonic() < deadline
        os.sched_yield()
