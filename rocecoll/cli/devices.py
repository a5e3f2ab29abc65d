# SPDX-License-Identifier: Apache-2.0
"""rocecoll devices: network interfaces and RDMA devices, and which of them rocecoll takes."""

from __future__ import annotations

from dataclasses import asdict

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rocecoll.cli import output
from rocecoll.diagnosis.machine.devices import Devices, read_devices
from rocecoll.diagnosis.machine.option_values import usable_settings
from rocecoll.diagnosis.machine.rdma_ports import RdmaPort, Verdict, verdict_on
from rocecoll.host.port_counters import signs, spell


def devices(json: output.Json = False) -> None:
    """Lists network interfaces and RDMA ports with their GIDs. A * marks what rocecoll takes.

    What a port has counted since its driver was loaded tells how well its network carries RoCE.
    The exit status is 1 if no interface fits the options.

    Example: ROCECOLL_SOCKET_IFNAME=eth rocecoll devices
    """
    found = read_devices(usable_settings())
    if json:
        output.print_json(asdict(found))
    else:
        show(found, output.console())
    output.exit_with(not found.address)


def show(found: Devices, console: Console) -> None:
    console.print(Text("UDP", "bold"))
    console.print(interface_table(found))
    if found.address:
        console.print(f"* other hosts are told {found.address}: {found.reason}")
    else:
        console.print(Text(f"none is chosen: {found.reason}", "red"))
    console.print(Text("\nRDMA", "bold"))
    for port in found.ports:
        show_port(port, verdict_on(port, found.verdicts), console)
    for remark in found.remarks:
        console.print(remark)


def interface_table(found: Devices) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("", "interface"):
        table.add_column(title, no_wrap=True)
    table.add_column("address", overflow="fold")
    for title in ("state", "MTU", "Mbit/s", "GSO", "GRO"):
        table.add_column(title, justify="right")
    for row in found.interfaces:
        table.add_row(
            "*" if row.address == found.address else "",
            row.name,
            row.address,
            "up" if row.up else "down",
            str(row.mtu_bytes),
            str(row.speed_mbit_s or "?"),
            on_off(row.gso),
            on_off(row.gro),
        )
    return table


def on_off(value: bool | None) -> str:
    return "?" if value is None else "on" if value else "off"


def show_port(port: RdmaPort, verdict: Verdict | None, console: Console) -> None:
    """A line about the port, its GIDs as show_gids lists them, and rocecoll's verdict on it."""
    facts = [port.state, port.link_layer, port.speed]
    if port.netdev:
        facts.append(f"{port.netdev} (MTU {port.netdev_mtu_bytes or '?'})")
    if port.numa_node is not None:
        facts.append(f"NUMA node {port.numa_node}")
    console.print(f"{port.name}: {', '.join(filter(None, facts))}")
    chosen = verdict is not None and verdict.chosen
    if port.gids:
        table = Table(box=None, pad_edge=False)
        table.add_column("")
        table.add_column("index", justify="right")
        table.add_column("GID", overflow="fold")
        for title in ("version", "IPv4", "interface"):
            table.add_column(title)
        for gid in port.gids:
            taken = chosen and verdict is not None and verdict.gid_index == gid.index
            table.add_row(
                "*" if taken else "", str(gid.index), gid.gid, gid.version, gid.ipv4, gid.netdev
            )
        console.print(Padding(table, (0, 0, 0, 2), expand=False))
    if verdict is None:
        console.print("  rocecoll does not see it: libibverbs has no provider for it, see remarks")
    else:
        mtu = "" if verdict.rdma_mtu_bytes is None else f"RDMA MTU {verdict.rdma_mtu_bytes}, "
        console.print(f"  {'* ' if chosen else ''}rocecoll: {mtu}{verdict.text}")
    for sign, counted in signs(port.counters).items():
        console.print(f"  {spell(sign, counted)}")
