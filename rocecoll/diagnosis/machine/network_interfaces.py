# SPDX-License-Identifier: Apache-2.0
"""The addresses of this host's interfaces, and the one that rocecoll tells other hosts."""

from __future__ import annotations

import array
import fcntl
import ipaddress
import socket
import struct
from dataclasses import dataclass

import psutil

from rocecoll import environment, options
from rocecoll.host.interfaces import Choice, choose_interface
from rocecoll.host.link_states import link_states

# linux/sockios.h and linux/ethtool.h
_SIOCETHTOOL = 0x8946
_ETHTOOL_GGSO, _ETHTOOL_GGRO = 0x23, 0x2B


@dataclass(frozen=True)
class UdpInterface:
    """`gso`, `gro` and `speed_mbit_s` are None if the driver does not report them."""

    name: str
    address: str
    up: bool
    mtu_bytes: int
    speed_mbit_s: int | None
    gso: bool | None
    gro: bool | None


def read_interfaces() -> list[UdpInterface]:
    """All interfaces, including those that are down, which rocecoll does not use."""
    states = link_states()
    found = []
    for name, entries in psutil.net_if_addrs().items():
        if (state := states.get(name)) is None:
            continue
        gso, gro = _ask_driver(name, _ETHTOOL_GGSO), _ask_driver(name, _ETHTOOL_GGRO)
        for entry in entries:
            if entry.family not in (socket.AF_INET, socket.AF_INET6):
                continue
            address = ipaddress.ip_address(entry.address.partition("%")[0])
            found.append(
                UdpInterface(
                    name, str(address), state.up, state.mtu_bytes, state.speed_mbit_s, gso, gro
                )
            )
    return found


def chosen_address(settings: options.Settings, meeting_point: str | None = None) -> Choice:
    """Raises ValueError if no interface fits the settings."""
    meeting_point = meeting_point or environment.master_address()
    return choose_interface(settings["socket_ifname"], settings["socket_family"], meeting_point)


def _ask_driver(name: str, what: int) -> bool | None:
    """struct ethtool_value, to which struct ifreq points."""
    value = array.array("I", [what, 0])
    request = struct.pack("16sP16x", name.encode(), value.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            fcntl.ioctl(any_socket, _SIOCETHTOOL, request)
        except OSError:
            return None
    return bool(value[1])
