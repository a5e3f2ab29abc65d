# SPDX-License-Identifier: Apache-2.0
"""The address that other hosts are told, its MTU, and what this host's own name means."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable

from rocecoll import environment, options
from rocecoll.diagnosis.finding import Finding, Level
from rocecoll.diagnosis.machine.network_interfaces import (
    UdpInterface,
    chosen_address,
    read_interfaces,
)

ETHERNET_MTU_BYTES = 1500
# The least that rocecoll sends, 1200 bytes, with IPv6 and UDP headers.
LEAST_MTU_BYTES = 1248
Resolve = Callable[[str], list[str]]


def resolve(name: str) -> list[str]:
    """The addresses of a name; OSError if it has none."""
    found = socket.getaddrinfo(name, None, type=socket.SOCK_DGRAM)
    return list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))


def check_addresses(settings: options.Settings) -> list[Finding]:
    interfaces = read_interfaces()
    try:
        choice = chosen_address(settings)
    except ValueError as error:
        return [Finding("address", Level.PROBLEM, str(error), how_to_find_an_interface())]
    address = str(choice.interface.address)
    findings = [check_address(address, choice.interface.name, choice.reason)]
    if not choice.interface.address.is_loopback:
        findings += [check_mtu(row) for row in interfaces if row.address == address]
        findings.append(check_host_name(socket.gethostname(), address))
    return findings + check_meeting_point(environment.master_address())


def how_to_find_an_interface() -> str:
    """Without the variables that exclude those there are; another library's may be among them."""
    said = options.given([])
    excluding = [said[name].origin for name in ("socket_ifname", "socket_family") if name in said]
    return f"unset {' '.join(excluding)}" if excluding else "ip address show up"


def check_address(address: str, interface: str, reason: str) -> Finding:
    text = f"other hosts are told {address} of {interface}: {reason}"
    if ipaddress.ip_address(address).is_loopback:
        return Finding(
            "address",
            Level.WARNING,
            f"{text}; only ranks of this host can be reached there",
            "ip address show up",
        )
    return Finding("address", Level.OK, text)


def check_mtu(interface: UdpInterface) -> Finding:
    text = f"{interface.name} has {interface.mtu_bytes} bytes"
    cure = f"sudo ip link set {interface.name} mtu {ETHERNET_MTU_BYTES}"
    if interface.mtu_bytes < LEAST_MTU_BYTES:
        text += f", less than the {LEAST_MTU_BYTES} that datagrams take: they are lost"
        return Finding("MTU", Level.PROBLEM, text, cure)
    if interface.mtu_bytes < ETHERNET_MTU_BYTES:
        text += ", less than Ethernet's 1500, as tunnels and overlay networks have"
        return Finding("MTU", Level.NOTE, text)
    if interface.mtu_bytes == ETHERNET_MTU_BYTES:
        text += "; 9000, where all hosts and switches take it, costs less processor time"
        return Finding("MTU", Level.OK, text)
    return Finding("MTU", Level.OK, text)


def check_host_name(name: str, address: str, resolve: Resolve = resolve) -> Finding:
    """Debian's installer maps it to 127.0.1.1, and torchrun gives other hosts this host's name."""
    try:
        means = resolve(name)
    except OSError as error:
        text = f"{name} has no address here ({error}), and torchrun tells it to the other hosts"
        cure = f"echo '{address} {name}' | sudo tee -a /etc/hosts"
        return Finding("host name", Level.WARNING, text, cure)
    if not all(ipaddress.ip_address(one).is_loopback for one in means):
        return Finding("host name", Level.OK, f"{name} is {', '.join(means)}")
    text = (
        f"{name} is {means[0]} on this host itself (/etc/hosts): a job that meets at this name "
        f"does not learn which network leads to the others, and offers {address}; programs that "
        "offer the address of their name offer loopback"
    )
    cure = f"torchrun --local-addr {address} ..."
    if "127.0.1.1" in means:
        cure = rf"sudo sed -i 's/^127\.0\.1\.1\b/{address}/' /etc/hosts"
    return Finding("host name", Level.WARNING, text, cure)


def check_meeting_point(host: str | None, resolve: Resolve = resolve) -> list[Finding]:
    if host is None:
        return []
    try:
        means = resolve(host)
    except OSError as error:
        text = f"MASTER_ADDR={host} has no address here: {error}"
        return [Finding("meeting point", Level.PROBLEM, text, f"getent hosts {host}")]
    return [Finding("meeting point", Level.OK, f"MASTER_ADDR={host} is {', '.join(means)}")]
