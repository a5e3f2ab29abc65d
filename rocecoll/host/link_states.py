# SPDX-License-Identifier: Apache-2.0
"""Which network interfaces are up, their MTU and speed: asked of the kernel, also where /proc is not mounted."""

from __future__ import annotations

import fcntl
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

# linux/sockios.h and linux/if.h
_SIOCGIFFLAGS, _SIOCGIFMTU = 0x8913, 0x8921
_IFF_RUNNING = 0x40
_DEVICES = Path("/sys/class/net")


@dataclass(frozen=True)
class LinkState:
    """`up` means up and with a carrier. `speed_mbit_s` is None if the driver does not report it."""

    up: bool
    mtu_bytes: int
    speed_mbit_s: int | None


def link_states() -> dict[str, LinkState]:
    """By name. An interface that goes away meanwhile is left out."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = {name: _state(any_socket, name) for _, name in socket.if_nameindex()}
    return {name: state for name, state in asked.items() if state is not None}


def link_state(name: str) -> LinkState | None:
    """None: there is no such interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        return _state(any_socket, name)


def _state(any_socket: socket.socket, name: str) -> LinkState | None:
    try:
        flags = _ask(any_socket, name, _SIOCGIFFLAGS, "H")
        mtu = _ask(any_socket, name, _SIOCGIFMTU, "i")
    except OSError:
        return None
    return LinkState(bool(flags & _IFF_RUNNING), mtu, _speed(name))


def _ask(any_socket: socket.socket, name: str, what: int, kind: str) -> int:
    """A number of struct ifreq."""
    answer = fcntl.ioctl(any_socket, what, struct.pack("16s24x", name.encode()))
    return int(struct.unpack_from(kind, answer, 16)[0])


def _speed(name: str) -> int | None:
    try:
        speed = int((_DEVICES / name / "speed").read_text())
    except (OSError, ValueError):  # most virtual ones have none
        return None
    return speed if speed > 0 else None
