# SPDX-License-Identifier: Apache-2.0
"""Times rocecoll beside its peers in the same processes, block by block in turn, as nccl-tests would.

Sizes and bandwidths are those of nccl-tests (rocecoll/bench/operations.py has the formulas). A round goes
A B C C B A, so that a machine that becomes slower or busier affects all alike; ratios are of medians.
Data is verified outside the timed part. `--network` measures between two network namespaces.
`--limit perftest` compares in a guest of scripts/softroce instead.
"""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from benchmarks import (
    cache_line,
    launcher,
    machine,
    mpi_peer,
    native,
    network_spec,
    networks,
    page,
    sweep,
    tables,
    udp_peer,
    yardsticks,
)
from benchmarks.cases import Transport
from benchmarks.commands import CommandError
from rich.console import Console
from rich.progress import TaskID
from softroce_bed import beds, packages
from softroce_bed.bed import EXIT_BROKEN, EXIT_IMPOSSIBLE, BedError, ImpossibleError

from rocecoll.bench import local_ranks, plot
from rocecoll.bench.operations import DataType, Operation, Reduction
from rocecoll.bench.progress import bar
from rocecoll.bench.results import HOST, Row
from rocecoll.cli import output
from rocecoll.cli.bench_options import (
    BlockS,
    DataTypes,
    EveryOperation,
    Factor,
    Least,
    Most,
    Operations,
    OutputPath,
    Places,
    PlotPath,
    Reductions,
    Rounds,
    chosen_cases,
    steps,
)

PEERS = ("gloo", *mpi_peer.WAYS, "core", "torch-call")
TABLE_WIDTH = 220
LONGEST_PAUSE_MS = 10_000


class Limit(str, Enum):
    udp = "udp"
    perftest = "perftest"


def run_in_bed(transport: Transport | None, rounds: int, bed: beds.Name) -> None:
    if transport is None:
        raise typer.BadParameter("--limit perftest takes --transport rc or ud as well")
    try:
        title, rows = yardsticks.measure(transport, rounds, bed)
    except BedError as error:
        print(f"bench: {error}", file=sys.stderr)
        status = EXIT_IMPOSSIBLE if isinstance(error, ImpossibleError) else EXIT_BROKEN
        raise typer.Exit(status) from error
    wide_console().print(yardsticks.table(title, rows))
    raise typer.Exit(0 if all(row.met for row in rows) else 1)


def wide_console() -> Console:
    console = Console()
    console.width = max(console.width, TABLE_WIDTH)  # so that the table does not wrap in a pipe
    return console


def peers_of(text: str) -> list[str]:
    names = [] if text == "none" else text.split(",")
    for name in names:
        if name not in PEERS:
            raise typer.BadParameter(f"{name!r} is no peer: {', '.join(PEERS)}, or none")
    return list(dict.fromkeys(names))


def pauses(text: str) -> list[float]:
    try:
        found = [float(one) for one in text.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} are no times in ms: 0.2,2,20") from error
    if not all(0 <= one <= LONGEST_PAUSE_MS for one in found):
        raise typer.BadParameter(f"{text!r}: each from 0 to {LONGEST_PAUSE_MS} ms")
    return found


def worlds(names: list[str], ranks: list[int]) -> list[launcher.World]:
    """Where to measure: this host and networks, with each number of ranks."""
    found = [launcher.world(name, number) for name in names for number in ranks]
    hosts = len(networks.DATA_ADDRESSES)
    for there in found:
        if there.spec is not None and there.ranks % hosts:
            raise network_spec.NetworkError(
                f"{there.name}: {there.ranks} ranks are not equally many on {hosts} hosts"
            )
    return found


def measured(plan: launcher.Plan, where: list[launcher.World]) -> list[Row]:
    rows = []
    with bar() as progress:
        for there, part in [(world, part) for world in where for part in plan.on(world)]:
            task = progress.add_task(there.where(part.beside), total=part.most_blocks)

            def block_done(task: TaskID = task) -> None:
                progress.advance(task)

            rows += launcher.measure(part, there, block_done)
            progress.update(task, total=progress.tasks[task].completed)
    return rows


def run(plan: launcher.Plan, where: list[launcher.World]) -> tuple[list[Row], str]:
    """Also returns how far apart two cores were before and after."""
    local_ranks.end_in_order()  # which also removes the networks
    try:
        before = cache_line.round_trip_ns()
        if any(there.spec for there in where):
            packages.install("network")
        if mpi_peer.among(plan.peers):
            packages.install("mpi")
        if udp_peer.NAME in plan.peers:
            native.build(udp_peer.LIBRARY)
        return measured(plan, where), cache_line.words([before, cache_line.round_trip_ns()])
    except (BedError, CommandError, network_spec.NetworkError, local_ranks.RankError) as error:
        print(f"bench: {error}", file=sys.stderr)
        raise typer.Exit(EXIT_BROKEN) from error


def show(rows: list[Row], sweep_all: bool) -> None:
    for table in tables.tables(rows):
        wide_console().print(table)
    if sweep_all:
        wide_console().print(sweep.table(rows))


Ranks = Annotated[list[int], typer.Option(min=1, help="in all")]
Versus = Annotated[
    str | None,
    typer.Option("--vs", help=f"of {', '.join(PEERS)}, with commas, or none; gloo without this"),
]
Sweep = Annotated[bool, typer.Option("--sweep", help="against each of rocecoll's own algorithms")]
Networks = Annotated[
    list[str] | None,
    typer.Option(
        help="host, host:udp, veth, or veth: and properties, as veth:rate=1gbit,delay=5ms"
    ),
]
SocketBuffer = Annotated[int | None, typer.Option(help="bytes, of rocecoll's socket")]
After = Annotated[
    str, typer.Option(help="ms that each rank computes before each call: 0.2,2,20, with commas")
]
Tcp = Annotated[str | None, typer.Option(help="gloo's congestion control on networks, e.g. cubic")]
PagePath = Annotated[
    Path | None, typer.Option("--page", help="write machine, command and tables as Markdown")
]
Limits = Annotated[
    Limit | None,
    typer.Option(help="udp: plain sockets as a peer; perftest: in a guest with RoCE devices"),
]
GuestTransport = Annotated[Transport | None, typer.Option(help="with --limit perftest")]
Bed = Annotated[beds.Name, typer.Option(help="which guest, with --limit perftest")]


def main(
    op: Operations = [Operation.all_reduce],  # noqa: B006
    every_op: EveryOperation = False,
    minbytes: Least = "8",
    maxbytes: Most = "16M",
    stepfactor: Factor = 8,
    datatype: DataTypes = [DataType.float32],  # noqa: B006
    reduction: Reductions = [Reduction.sum],  # noqa: B006
    place: Places = None,
    ranks: Ranks = [2],  # noqa: B006
    versus: Versus = None,
    sweep_all: Sweep = False,
    after: After = "0",
    rounds: Rounds = 5,
    block_s: BlockS = 0.2,
    network: Networks = None,
    socket_buffer: SocketBuffer = None,
    tcp: Tcp = None,
    json: output.Json = False,
    output_path: OutputPath = None,
    plot_path: PlotPath = None,
    page_path: PagePath = None,
    limit: Limits = None,
    transport: GuestTransport = None,
    bed: Bed = beds.Name.auto,
) -> None:
    """Compare rocecoll with others, interleaved in one run.

    With --after each rank computes for about so long, one up to 20 % longer than another, then calls once;
    what counts is the time from the last rank's call to the last rank's result.

    Networks need root: two hosts, half of the ranks on each, joined by veth. Its properties are mtu=BYTES,
    offload=off, loss=PERCENT of all packets at random and both ways; rate=RATE, burst=SIZE and limit=SIZE
    of a token bucket each way in the words of tc (limit is what may wait there), where=host or router for
    its place, and mark=on to mark (ECN) what finds more than half of the limit in use; delay=TIME each way,
    jitter=TIME for up to so much more, reorder=PERCENT that skip it; and beside=tcp:cubic, or
    beside=4*tcp:cubic, for TCP flows all the time, whose bandwidth is told. Beside the same network with
    loss=0, the share of its bandwidth is told.

    host:udp is this host without its shared memory. mpi is OpenMPI over TCP, mpi-shm over shared memory,
    and if both are named, each where rocecoll does likewise; mpi-ucx is OpenMPI over UCX, which takes
    TCP on host:udp and else shared memory. All are on this host alone, the second named in processes of
    its own. core is rocecoll called without torch, torch-call what a call of torch.distributed takes that does
    nothing: no backend can take less.
    """
    if limit is Limit.perftest:
        run_in_bed(transport, rounds, bed)
    operations = list(Operation) if every_op else op
    sizes_bytes = steps(minbytes, maxbytes, stepfactor)
    chosen = chosen_cases(operations, sizes_bytes, datatype, reduction, place, pauses(after))
    try:
        where = worlds(network or [HOST], ranks)
        if plot_path is not None:
            plot.require(plot_path, chosen)
    except (network_spec.NetworkError, plot.PlotError) as error:
        raise typer.BadParameter(str(error)) from error
    peers = peers_of(versus or ("none" if sweep_all else "gloo"))
    peers += [udp_peer.NAME] if limit is Limit.udp else []
    plan = launcher.Plan(
        chosen,
        peers + (sweep.peers(operations) if sweep_all else []),
        rounds,
        block_s,
        socket_buffer,
        tcp,
    )
    rows, between_cores = run(plan, where)
    facts = machine.facts(tcp, between_cores)
    found = {"machine": facts, "rows": [row.json() for row in rows]}
    if json:
        output.print_json(found)
    else:
        show(rows, sweep_all)
    if output_path is not None:
        output.write_json(output_path, found)
    if plot_path is not None:
        plot.draw(rows, plot_path)
    if page_path is not None:
        page.write(page_path, facts, rows)
    raise typer.Exit(1 if any(any(row.wrong.values()) for row in rows) else 0)


if __name__ == "__main__":
    typer.run(main)
