# SPDX-License-Identifier: Apache-2.0
"""What the kernel grants a UDP socket: its buffers, and segmentation offload, tried on loopback."""

from __future__ import annotations

import socket
import struct

from rocecoll import options
from rocecoll.diagnosis.finding import Finding, Level, in_units

# linux/socket.h and linux/udp.h; Python has no names for them.
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_SOL_UDP, _UDP_SEGMENT, _UDP_GRO = 17, 103, 104
_SEGMENT_BYTES, _SEGMENTS = 1000, 8
_ARRIVAL_LIMIT_S = 5.0


def check_udp_sockets(settings: options.Settings) -> list[Finding]:
    asked = settings["socket_buffer_bytes"]
    return [
        judge_buffers(asked, *granted_buffers(asked)),
        check_offload(settings["udp_offload"]),
    ]


def granted_buffers(asked_bytes: int) -> tuple[int, int]:
    """Send and receive buffer as the core gets them: any size with privilege, else up to the limit."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        return (
            _set_buffer(probe, _SO_SNDBUFFORCE, socket.SO_SNDBUF, asked_bytes),
            _set_buffer(probe, _SO_RCVBUFFORCE, socket.SO_RCVBUF, asked_bytes),
        )


def _set_buffer(probe: socket.socket, forced: int, ordinary: int, asked_bytes: int) -> int:
    try:
        probe.setsockopt(socket.SOL_SOCKET, forced, asked_bytes)
    except PermissionError:
        probe.setsockopt(socket.SOL_SOCKET, ordinary, asked_bytes)
    return probe.getsockopt(socket.SOL_SOCKET, ordinary) // 2  # the kernel reports twice the size


def judge_buffers(asked_bytes: int, send_bytes: int, receive_bytes: int) -> Finding:
    asked = in_units(asked_bytes)
    if min(send_bytes, receive_bytes) >= asked_bytes:
        return Finding("UDP buffers", Level.OK, f"{asked} each way, as asked for")
    text = (
        f"{in_units(send_bytes)} to send and {in_units(receive_bytes)} to receive of the {asked} "
        "asked for: when several ranks send to one at once, what does not fit is dropped and sent "
        "again"
    )
    limits = f"net.core.rmem_max={asked_bytes} net.core.wmem_max={asked_bytes}"
    return Finding("UDP buffers", Level.WARNING, text, f"sudo sysctl -w {limits}")


def check_offload(wanted: bool) -> Finding:
    if not wanted:
        text = "switched off by ROCECOLL_UDP_OFFLOAD: every datagram takes a system call's time"
        return Finding("UDP offload", Level.NOTE, text, "unset ROCECOLL_UDP_OFFLOAD")
    try:
        joined = _joined_segments()
    except OSError as error:
        text = f"the kernel does not cut and join datagrams ({error}): more processor time"
        return Finding("UDP offload", Level.WARNING, text, "uname -r  # Linux 5.0 has both")
    if joined < _SEGMENTS:
        text = f"datagrams are cut in the kernel, but {_SEGMENTS} came as {_SEGMENTS // joined}"
        return Finding("UDP offload", Level.NOTE, text)
    text = f"works: {_SEGMENTS} datagrams in one call, sent (GSO) and received (GRO) on loopback"
    return Finding("UDP offload", Level.OK, text)


def _joined_segments() -> int:
    """How many datagrams of one send call the first receive call returns."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind(("127.0.0.1", 0))
        receiver.setsockopt(_SOL_UDP, _UDP_GRO, 1)
        receiver.settimeout(_ARRIVAL_LIMIT_S)
        size = struct.pack("H", _SEGMENT_BYTES)
        sender.connect(receiver.getsockname())
        sender.sendmsg([bytes(_SEGMENT_BYTES * _SEGMENTS)], [(_SOL_UDP, _UDP_SEGMENT, size)])
        return len(receiver.recv(2 * _SEGMENT_BYTES * _SEGMENTS)) // _SEGMENT_BYTES
