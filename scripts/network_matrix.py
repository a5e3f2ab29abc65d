# SPDX-License-Identifier: Apache-2.0
"""Measures rocecoll, and gloo over TCP, on a fixed list of networks, and writes a page of the results.

On each network all take turns in the same processes, as in scripts/bench. A congestion control other than
rocecoll's default is a setting of a process, and so has processes of its own.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from benchmarks import launcher, machine, network_page, tcp_peer
from benchmarks.commands import CommandError
from benchmarks.network_page import Line
from benchmarks.network_spec import CONTROLS, NetworkError
from rich.console import Console
from softroce_bed import packages
from softroce_bed.bed import EXIT_BROKEN, BedError

from rocecoll import options
from rocecoll.bench import local_ranks
from rocecoll.bench.machine import facts
from rocecoll.bench.operations import Case, DataType, Operation, Place, Reduction
from rocecoll.bench.sizes import MIB

PAGE = Path(__file__).resolve().parent.parent / "docs" / "networks.md"
RANKS, ROUNDS = 2, 2
BLOCKS = 2 * ROUNDS  # of each peer
OPTION = "congestion"
VARIABLE = options.variable(OPTION)
TCP_CONTROLS = ("cubic", "bbr")


@dataclass(frozen=True)
class Measurement:
    network: str
    operation: Operation = Operation.all_reduce
    size_bytes: int = 4 * MIB

    @property
    def case(self) -> Case:
        place = Place.in_place
        return Case(self.operation, self.size_bytes, DataType.float32, Reduction.sum, place)


HOST = "veth:rate=1gbit,where=host,offload=off"
SLOW = "veth:rate=100mbit,burst=32kb,limit=200kb,offload=off"
ONE_WAY = (Operation.broadcast, 16 * MIB)  # between two ranks it is only a send
MATRIX = (
    Measurement(f"{HOST},burst=128kb,limit=500kb"),
    Measurement("veth:rate=1gbit,where=host,burst=128kb,limit=500kb"),
    Measurement(f"{HOST},burst=128kb,limit=100kb", *ONE_WAY),
    Measurement(f"{HOST},burst=16kb,limit=500kb"),
    Measurement(f"{HOST},burst=64kb,limit=500kb"),
    Measurement(f"{HOST},burst=512kb,limit=500kb"),
    Measurement(f"{HOST},burst=128kb,limit=2mb"),
    Measurement("veth:rate=1gbit,burst=512kb,limit=500kb"),
    Measurement("veth:rate=1gbit,burst=128kb,limit=500kb,offload=off"),
    Measurement(f"{SLOW},where=host", size_bytes=MIB),
    Measurement(SLOW, size_bytes=MIB),
    Measurement("veth:rate=1gbit,limit=1mb,delay=10ms"),
    Measurement("veth:rate=1gbit,limit=4mb,delay=50ms", size_bytes=64 * MIB),
    Measurement("veth:rate=100mbit,limit=500kb,delay=20ms,jitter=5ms", size_bytes=MIB),
    Measurement("veth:rate=1gbit,limit=500kb,beside=tcp:cubic", *ONE_WAY),
    Measurement("veth:rate=1gbit,limit=500kb,beside=tcp:bbr", *ONE_WAY),
    Measurement("veth"),
)


def tcp_controls() -> list[str]:
    """The congestion controls that this kernel has."""
    known = CONTROLS.read_text().split()
    return [name for name in TCP_CONTROLS if name in known]


def measured(one: Measurement, controllers: list[str], seconds: float) -> Iterator[Line]:
    """A line for each of rocecoll's controllers. Raises NetworkError for what this kernel cannot do."""
    there = launcher.world(one.network, RANKS)
    peers = [tcp_peer.name_of(name) for name in tcp_controls()]
    plan = launcher.Plan([one.case], peers, ROUNDS, seconds / BLOCKS)
    for controller in controllers:
        os.environ[VARIABLE] = controller  # also the default: the variable may be set already
        [row] = launcher.measure(plan, there, lambda: None)
        if any(row.wrong.values()):
            raise local_ranks.RankError(f"{one.network}: wrong elements: {row.wrong}")
        yield Line(row, controller)


def lines(
    matrix: Iterable[Measurement], controllers: list[str], seconds: float, console: Console
) -> Iterator[Line]:
    """Prints rows as they come. Networks that cannot be made here are skipped and named."""
    for one in matrix:
        try:
            for line in measured(one, controllers, seconds):
                console.print(f"| {' | '.join(network_page.cells(line, TCP_CONTROLS))} |")
                yield line
        except (CommandError, NetworkError) as error:
            console.print(f"left out: {one.network}: {error}")


def default_controller() -> str:
    return str(options.table()[OPTION].default)


def chosen_controllers(text: str | None) -> list[str]:
    if text is None:
        return [default_controller()]
    try:
        names = [str(options.table()[OPTION].read(name, VARIABLE)) for name in text.split(",")]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return list(dict.fromkeys(names))


def chosen(words: list[str] | None) -> list[Measurement]:
    found = [one for one in MATRIX if all(word in one.network for word in words or ())]
    if not found:
        raise typer.BadParameter(f"no network has {' and '.join(words or ())} in its name")
    return found


Controllers = Annotated[
    str | None, typer.Option(help=f"values of {VARIABLE}, with commas; without it the default")
]
Seconds = Annotated[float, typer.Option(min=0.1, help="of each cell")]
Only = Annotated[list[str] | None, typer.Option(help="networks with this in their name")]
Output = Annotated[
    Path | None,
    typer.Option(
        help="the page; without it docs/networks.md, unless --only or --controllers asks for another choice"
    ),
]


def main(
    controllers: Controllers = None,
    seconds: Seconds = 4,
    only: Only = None,
    output: Output = None,
) -> None:
    """Measure shaped networks, print a table, and write a page with it. Needs root, and takes minutes."""
    local_ranks.end_in_order()
    console = Console(highlight=False, markup=False, soft_wrap=True)
    names, matrix = chosen_controllers(controllers), chosen(only)
    is_whole = matrix == list(MATRIX) and names == [default_controller()]
    page = output or (PAGE if is_whole else None)
    found: list[Line] = []
    broken: Exception | None = None
    console.print(f"| {' | '.join(network_page.columns(TCP_CONTROLS))} |")
    try:
        packages.install("network")
        for line in lines(matrix, names, seconds, console):
            found.append(line)
    except (BedError, local_ranks.RankError) as error:
        print(f"network_matrix: {error}", file=sys.stderr)
        broken = error
    if found and page is not None:  # also after an error: earlier measurements took minutes
        command = shlex.join(["./scripts/network_matrix", *sys.argv[1:]])
        about = facts() | {"commit": machine.commit()}
        network_page.write(page, command, about, found, TCP_CONTROLS)
    if broken is not None or not found:
        raise typer.Exit(EXIT_BROKEN) from broken


if __name__ == "__main__":
    typer.run(main)
