# SPDX-License-Identifier: Apache-2.0
"""Which of this host's addresses to tell the other ranks."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil

from rocecoll.host.link_states import link_state, link_states

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

# Documentation addresses (RFC 5737, RFC 3849): nobody is there, so the route to them is the default
# route. Connecting a UDP socket only looks the route up; no packet is sent.
_DEFAULT_ROUTE = ("192.0.2.1", "2001:db8::1")
_FAMILIES = {"ipv4": socket.AF_INET, "ipv6": socket.AF_INET6, "auto": socket.AF_UNSPEC}


@dataclass(frozen=True)
class Interface:
    name: str
    address: IpAddress

    @property
    def is_link_local(self) -> bool:
        """Whether it is an IPv6 address that is valid only together with an interface of this host."""
        return self.address.version == 6 and self.address.is_link_local

    def __str__(self) -> str:
        return f"{self.name} {self.address}"


@dataclass(frozen=True)
class Choice:
    """The address that ranks on other hosts use, and why it was chosen."""

    interface: Interface
    reason: str

    @property
    def address(self) -> str:
        return str(self.interface.address)

    @property
    def mtu_bytes(self) -> int | None:
        state = link_state(self.interface.name)
        return None if state is None else state.mtu_bytes


@dataclass(frozen=True)
class Pattern:
    """One item of ROCECOLL_SOCKET_IFNAME: a prefix, an exact name or a network."""

    prefix: str = ""
    exact: str = ""
    network: IpNetwork | None = None

    def matches(self, interface: Interface) -> bool:
        if self.network is not None:
            return interface.address in self.network
        if self.exact:
            return interface.name == self.exact
        return interface.name.startswith(self.prefix)


@dataclass(frozen=True)
class InterfaceFilter:
    patterns: tuple[Pattern, ...] = ()
    excludes: bool = False

    def select(self, interfaces: Sequence[Interface]) -> list[Interface]:
        """Those of the first pattern that matches any, or all that are not excluded."""
        if not self.patterns:
            return list(interfaces)
        if self.excludes:
            return [i for i in interfaces if not any(p.matches(i) for p in self.patterns)]
        matches = ([i for i in interfaces if p.matches(i)] for p in self.patterns)
        return next(filter(None, matches), [])


def parse_filter(text: str) -> InterfaceFilter:
    """NCCL's grammar and networks: "eth,ib", "=eth0,=eth1", "^docker,lo", "10.0.0.0/8"."""
    text = text.strip()
    excludes = text.startswith("^")
    exact = text.removeprefix("^").startswith("=")
    patterns = []
    for item in text.removeprefix("^").split(","):
        item = item.strip().removeprefix("^")
        name = item.removeprefix("=")
        if not name:
            continue
        if "/" in name:
            patterns.append(Pattern(network=_network(name)))
        elif exact or item.startswith("="):
            patterns.append(Pattern(exact=name))
        else:
            patterns.append(Pattern(prefix=name))
    if text and not patterns:
        raise ValueError(f"ROCECOLL_SOCKET_IFNAME={text!r} names no interface")
    return InterfaceFilter(tuple(patterns), excludes)


def _network(text: str) -> IpNetwork:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError as error:
        raise ValueError(f"ROCECOLL_SOCKET_IFNAME: {error}") from None


def list_interfaces(family: str = "auto") -> list[Interface]:
    """The addresses of the interfaces that are up."""
    states = link_states()
    found = []
    for name, addresses in psutil.net_if_addrs().items():
        if name not in states or not states[name].up:
            continue
        for entry in addresses:
            if entry.family not in (socket.AF_INET, socket.AF_INET6):
                continue
            if _FAMILIES[family] not in (socket.AF_UNSPEC, entry.family):
                continue
            address = ipaddress.ip_address(entry.address.partition("%")[0])
            found.append(Interface(name, address))
    return found


def fits(ifname: str) -> bool:
    """Whether any interface of this host that is up matches."""
    try:
        return bool(parse_filter(ifname).select(list_interfaces()))
    except ValueError:
        return False


def route_source(host: str, family: str = "auto") -> IpAddress | None:
    """The local address that packets to `host` leave from, or None without a route."""
    try:
        candidates = socket.getaddrinfo(host, 9, _FAMILIES[family], socket.SOCK_DGRAM)
    except OSError:
        return None
    for kind, type_, protocol, _, address in candidates:
        try:
            with socket.socket(kind, type_, protocol) as probe:
                probe.connect(address)
                source = ipaddress.ip_address(str(probe.getsockname()[0]).partition("%")[0])
        except OSError:
            continue
        if not (source.version == 6 and source.is_link_local):
            return source
    return None


def choose_address(
    ifname: str,
    family: str,
    meeting_point: str | None,
    interfaces: Sequence[Interface] | None = None,
    route: Callable[[str, str], IpAddress | None] = route_source,
) -> str:
    """The numeric address that ranks on other hosts use: that of choose_interface()."""
    return choose_interface(ifname, family, meeting_point, interfaces, route).address


def choose_interface(
    ifname: str,
    family: str,
    meeting_point: str | None,
    interfaces: Sequence[Interface] | None = None,
    route: Callable[[str, str], IpAddress | None] = route_source,
) -> Choice:
    """The interface whose address ranks on other hosts use.

    It is the source of the route to the meeting point, else of the default route, else the first
    interface; loopback only if there is no other. Ranks on this host always use loopback.
    """
    if interfaces is None:
        interfaces = list_interfaces(family)
    allowed = _allowed(ifname, family, interfaces)
    among = f", among those of ROCECOLL_SOCKET_IFNAME={ifname!r}" if ifname else ""
    by_address = {interface.address: interface for interface in reversed(allowed)}
    ways = [(host, "the default route") for host in _DEFAULT_ROUTE]
    if meeting_point:
        ways.insert(0, (meeting_point, f"the route to {meeting_point}"))
    for host, name in ways:
        source = route(host, family)
        if source is not None and not source.is_loopback and source in by_address:
            return Choice(by_address[source], f"the source of {name}{among}")
    for interface in allowed:
        if not interface.address.is_loopback:
            return Choice(interface, f"the first that is up, as no route leads through any{among}")
    return Choice(allowed[0], f"there is only loopback{among}")


def _allowed(ifname: str, family: str, interfaces: Sequence[Interface]) -> list[Interface]:
    wanted = parse_filter(ifname)
    allowed = wanted.select([i for i in interfaces if not i.is_link_local])
    if not allowed and (link_local := wanted.select([i for i in interfaces if i.is_link_local])):
        raise ValueError(
            f"ROCECOLL_SOCKET_IFNAME={ifname!r} and ROCECOLL_SOCKET_FAMILY={family} leave only "
            f"{link_local[0]}, a link-local address, which other hosts cannot use; give "
            f"{link_local[0].name} another address"
        )
    if not allowed:
        table = "; ".join(map(str, interfaces)) or "none"
        raise ValueError(
            f"no interface of this host fits ROCECOLL_SOCKET_IFNAME={ifname!r} and "
            f"ROCECOLL_SOCKET_FAMILY={family}; up with such an address are: {table}"
        )
    return allowed
