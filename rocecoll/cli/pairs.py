# SPDX-License-Identifier: Apache-2.0
"""rocecoll doctor --store: UDP, and RoCE where available, between every two of several hosts."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import asdict, dataclass
from datetime import timedelta
from threading import Thread
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from rocecoll import options
from rocecoll.cli import findings_view, output
from rocecoll.diagnosis.finding import has_problems
from rocecoll.diagnosis.machine.addresses import resolve
from rocecoll.diagnosis.machine.network_interfaces import chosen_address
from rocecoll.diagnosis.pairs.roce import try_roce
from rocecoll.diagnosis.pairs.roce_verdicts import Roce, RoceWay, judge_roce
from rocecoll.diagnosis.pairs.table import PairsError
from rocecoll.diagnosis.pairs.udp import part, try_pairs
from rocecoll.diagnosis.pairs.udp_verdicts import Member, Way, judge
from rocecoll.rendezvous.meeting import Store, local_addresses

ANSWER_LIMIT_S = 5.0  # that a Store has for its first answer once the wait for it is over


@dataclass(frozen=True)
class Wish:
    """What the command line asks for; `rank` None: whichever is free."""

    store: str
    ranks: int
    rank: int | None
    wait_s: float
    json: bool


def run(wish: Wish, settings: options.Settings) -> None:
    """Ends the command, with the same status on every host."""
    host, port = parse_place(wish.store)
    try:
        address = str(chosen_address(settings, host).interface.address)
        store, rank = open_store(host, port, wish)
        ports = settings["port_range"]
        patience = timedelta(seconds=wish.wait_s)
        members, ways = try_pairs(store, rank, wish.ranks, address, ports, patience)
        roce = try_roce(store, rank, members, ways, settings)
        part(store, rank, wish.ranks)
    except (RuntimeError, OSError, ValueError) as error:  # the store's are RuntimeErrors
        said = str(error).partition("\n")[0]
        typer.echo(f"rocecoll doctor --store {wish.store}: {said}", err=True)
        raise typer.Exit(output.Status.PROBLEMS) from error
    findings = judge(members, ways) + judge_roce(members, roce)
    if wish.json:
        output.print_json(
            {
                "members": [asdict(member) for member in members],
                "ways": [asdict(way) for way in ways],
                "roce": asdict(roce),
                "findings": [asdict(finding) for finding in findings],
            }
        )
    else:
        console = output.console()
        if rank == 0:
            show(members, ways, roce, console)
        findings_view.show(findings, console)
    output.exit_with(has_problems(findings))


def parse_place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise typer.BadParameter(f"--store is HOST:PORT, as node1:29500, not {text}")
    return host, int(port)


def open_store(host: str, port: int, wish: Wish) -> tuple[Store, int]:
    """torch's Store, served by rank 0, or without --rank by the first process on that host."""
    if on_this_host(host) if wish.rank is None else wish.rank == 0:
        try:
            return reach(host, port, True, wish.wait_s), 0
        except RuntimeError:
            if wish.rank is not None:
                raise
    store = reach(host, port, False, wish.wait_s)
    rank = store.add("rocecoll/doctor/ranks", 1) if wish.rank is None else wish.rank
    if rank >= wish.ranks:
        raise PairsError(f"this would be rank {rank} of {wish.ranks}: are there more hosts?")
    return store, rank


def reach(host: str, port: int, serves: bool, wait_s: float) -> Store:
    """In a thread of its own, since no signal ends a thread that connects, and no limit the wait for
    the first answer of a program that is no Store.
    """
    from torch._C._distributed_c10d import TCPStore

    made: Future[Any] = Future()

    def attempt() -> None:
        patience = timedelta(seconds=wait_s)
        try:
            made.set_result(TCPStore(host, port, None, serves, patience, wait_for_workers=False))
        except Exception as error:
            made.set_exception(error)

    Thread(target=attempt, name="rocecoll_store", daemon=True).start()
    if not wait([made], wait_s + ANSWER_LIMIT_S).done:
        raise PairsError("the port is open, but what listens there does not answer as a Store does")
    store: Store = made.result()
    return store


def on_this_host(host: str) -> bool:
    return not {str(address) for address in local_addresses()}.isdisjoint(resolve(host))


def show(members: Sequence[Member], ways: Sequence[Way], roce: Roce, console: Console) -> None:
    """A table of all directions, with columns for RoCE if any two hosts have tried it."""
    table = Table(box=None, pad_edge=False)
    for title in ("from", "to"):
        table.add_column(title, overflow="fold")
    titles = ["arrived", "round trip us", "MTU", "Mbit/s"]
    if roce.ways:
        titles += ["RoCE us", "Mbit/s"]
    for title in titles:
        table.add_column(title, justify="right")
    over_roce = {(way.source, way.target): way for way in roce.ways}
    for way in ways:
        table.add_row(
            f"{way.source} {members[way.source].host_name}",
            f"{way.target} {members[way.target].host_name}",
            f"{way.arrived}/{way.sent}",
            "-" if way.rtt_us is None else f"{way.rtt_us:.0f}",
            str(way.mtu_bytes or "-"),
            f"{way.bandwidth_mbit_s:.0f}" if way.bandwidth_mbit_s else "-",
            *(roce_cells(over_roce.get((way.source, way.target))) if roce.ways else ()),
        )
    console.print(table)


def roce_cells(way: RoceWay | None) -> tuple[str, str]:
    """Dashes if either host has no RoCE."""
    if way is None:
        return "-", "-"
    return (f"{way.rtt_us:.0f}", f"{way.bandwidth_mbit_s:.0f}") if way.works else ("fails", "-")
