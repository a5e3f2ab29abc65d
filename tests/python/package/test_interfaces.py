# SPDX-License-Identifier: Apache-2.0
"""Which address is offered, on machines that are made up; and what this machine really has."""

from __future__ import annotations

import ipaddress

import pytest

from rocecoll.host.interfaces import (
    Interface,
    IpAddress,
    choose_address,
    choose_interface,
    list_interfaces,
    parse_filter,
    route_source,
)

pytestmark = pytest.mark.quick


def interfaces(**addresses: str) -> list[Interface]:
    return [
        Interface(name, ipaddress.ip_address(address))
        for name, text in addresses.items()
        for address in text.split()
    ]


MACHINE = interfaces(
    lo="127.0.0.1 ::1",
    docker0="172.17.0.1",
    eth0="10.0.0.3 fd00::3",
    eth1="192.168.7.3",
    ib0="10.9.0.3",
)


def routes(**sources: str) -> object:
    """A routing table: destination to source address; "default" for all others."""

    def route(host: str, family: str) -> IpAddress | None:
        text = sources.get(host.replace(".", "_"), sources.get("default"))
        return ipaddress.ip_address(text) if text else None

    return route


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "lo docker0 eth0 eth1 ib0"),
        ("eth", "eth0 eth1"),
        ("ib,eth", "ib0"),
        ("wlan,eth1", "eth1"),
        ("=eth", ""),
        ("=eth1", "eth1"),
        ("=eth9,=eth1", "eth1"),
        ("^docker,lo", "eth0 eth1 ib0"),
        ("^=eth0,docker", "lo docker0 eth1 ib0"),
        ("10.0.0.0/8", "eth0 ib0"),
        ("10.9.0.7/16", "ib0"),
        ("^10.0.0.0/8,lo", "docker0 eth1"),
        ("fd00::/8", "eth0"),
    ],
)
def test_filter(text: str, names: str) -> None:
    address_free = dict.fromkeys(interface.name for interface in parse_filter(text).select(MACHINE))
    if text.startswith("^10"):  # eth0 stays with its IPv6 address
        address_free.pop("eth0")
    assert list(address_free) == names.split()


@pytest.mark.parametrize("text", ["^", "=", ",", "10.0.0.0/99", "eth0/x"])
def test_filter_without_meaning(text: str) -> None:
    with pytest.raises(ValueError, match="ROCECOLL_SOCKET_IFNAME"):
        parse_filter(text)


@pytest.mark.parametrize(
    ("ifname", "table", "chosen"),
    [
        ("", routes(master="192.168.7.3", default="10.0.0.3"), "192.168.7.3"),
        ("", routes(master="127.0.0.1", default="10.0.0.3"), "10.0.0.3"),
        ("", routes(default="10.0.0.3"), "10.0.0.3"),
        ("", routes(), "172.17.0.1"),
        ("^docker", routes(), "10.0.0.3"),
        ("^docker", routes(master="172.17.0.1"), "10.0.0.3"),
        ("eth", routes(master="192.168.7.3"), "192.168.7.3"),
        ("eth", routes(default="172.17.0.1"), "10.0.0.3"),
        ("lo", routes(default="10.0.0.3"), "127.0.0.1"),
        ("10.9.0.0/16", routes(default="10.0.0.3"), "10.9.0.3"),
    ],
)
def test_choice(ifname: str, table: object, chosen: str) -> None:
    assert choose_address(ifname, "auto", "master", MACHINE, table) == chosen


@pytest.mark.parametrize(
    ("ifname", "table", "reason"),
    [
        (
            "",
            routes(master="192.168.7.3", default="10.0.0.3"),
            "eth1, the source of the route to master",
        ),
        (
            "",
            routes(master="127.0.0.1", default="10.0.0.3"),
            "eth0, the source of the default route",
        ),
        ("", routes(), "docker0, the first that is up, as no route leads through any"),
        (
            "=lo",
            routes(),
            "lo, there is only loopback, among those of ROCECOLL_SOCKET_IFNAME='=lo'",
        ),
    ],
)
def test_a_choice_has_a_reason(ifname: str, table: object, reason: str) -> None:
    choice = choose_interface(ifname, "auto", "master", MACHINE, table)
    assert f"{choice.interface.name}, {choice.reason}" == reason


def test_only_loopback() -> None:
    assert choose_address("", "auto", None, interfaces(lo="127.0.0.1"), routes()) == "127.0.0.1"


def test_nothing_fits_lists_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"ROCECOLL_SOCKET_IFNAME='wlan'.*eth1 192\.168\.7\.3"):
        choose_address("wlan", "auto", None, MACHINE, routes())
    with pytest.raises(ValueError, match=r"FAMILY=ipv6; up with such an address are: none$"):
        choose_interface("", "ipv6", None, [])


@pytest.mark.parametrize("ifname", ["eth1", "=eth1", "^lo"])
def test_link_local_addresses_are_refused_by_name(ifname: str) -> None:
    machine = interfaces(lo="127.0.0.1 ::1", eth1="fe80::3")
    with pytest.raises(ValueError, match=r"only eth1 fe80::3, a link-local address.*another"):
        choose_address(ifname, "auto", None, machine, routes())


def test_link_local_addresses_beside_others_are_passed_over() -> None:
    machine = interfaces(lo="::1", eth1="fe80::3 fd00::3", eth2="fe80::4")
    assert choose_address("", "auto", None, machine, routes()) == "fd00::3"
    assert choose_address("eth", "auto", "master", machine, routes(master="fe80::3")) == "fd00::3"
    assert choose_address("eth2,eth1", "auto", None, machine, routes()) == "fd00::3"


def test_this_machine() -> None:
    found = list_interfaces()
    assert ipaddress.ip_address("127.0.0.1") in {interface.address for interface in found}
    assert all(interface.address.version == 4 for interface in list_interfaces("ipv4"))
    assert route_source("127.0.0.1") == ipaddress.ip_address("127.0.0.1")
    assert route_source("host.invalid") is None
    assert choose_address("=lo", "ipv4", "127.0.0.1") == "127.0.0.1"
