# SPDX-License-Identifier: Apache-2.0
"""rocecoll bench: how long collectives take here, over rocecoll and over others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from rocecoll import environment, launchers, options
from rocecoll.bench import local_ranks, plot
from rocecoll.bench.operations import DataType, Operation, Reduction
from rocecoll.bench.plan import OURS, Plan
from rocecoll.bench.progress import bar
from rocecoll.bench.report import Collector
from rocecoll.bench.results import HOST, HOSTS, Row
from rocecoll.cli import bench_view, output
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
from rocecoll.host.interfaces import choose_interface
from rocecoll.launchers import Place

LOCAL_RANKS = 2

Versus = Annotated[
    str,
    typer.Option("--vs", metavar="NAMES", help="Other backends of torch, with commas, or none."),
]
Ranks = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="To start here, where no launcher has; else 2."),
]


@dataclass(frozen=True)
class Outputs:
    json: bool  # on stdout
    file: Path | None
    plot: Path | None

    def problem(self, plan: Plan) -> str:
        """Why the results could not be written at the end, if that is known beforehand."""
        for path in filter(None, (self.file, self.plot)):
            if path.is_dir():
                return f"cannot write {path}: it is a directory"
            if not path.absolute().parent.is_dir():
                return f"cannot write {path}: there is no directory {path.absolute().parent}"
        try:
            if self.plot is not None:
                plot.require(self.plot, plan.cases)
        except plot.PlotError as error:
            return f"--plot {self.plot}: {error}"
        return ""


def bench(
    op: Operations = [Operation.all_reduce],  # noqa: B006
    every_op: EveryOperation = False,
    minbytes: Least = "8",
    maxbytes: Most = "16M",
    stepfactor: Factor = 8,
    datatype: DataTypes = [DataType.float32],  # noqa: B006
    reduction: Reductions = [Reduction.sum],  # noqa: B006
    place: Places = None,
    versus: Versus = "gloo",
    ranks: Ranks = None,
    rounds: Rounds = 5,
    block_s: BlockS = 0.2,
    json: output.Json = False,
    output_path: OutputPath = None,
    plot_path: PlotPath = None,
) -> None:
    """Times collectives over rocecoll and over gloo.

    All take turns on the same ranks: those that torchrun, srun or mpirun has started, else two on
    this host. Sizes and bandwidths are those of nccl-tests; data is verified outside the timed part.
    The exit status is 1 if any is wrong, if rocecoll gives up, or if a rank ends.

    Example: rocecoll bench --ranks 4 --op all_reduce --op broadcast -e 64M

    On both hosts: torchrun --nnodes 2 --nproc-per-node 2 --node-rank N --master-addr HOST -m
    rocecoll.bench
    """
    operations = list(Operation) if every_op else op
    sizes_bytes = steps(minbytes, maxbytes, stepfactor)
    cases = chosen_cases(operations, sizes_bytes, datatype, reduction, place)
    plan = Plan(cases, peers_of(versus), rounds, block_s)
    outputs = Outputs(json, output_path, plot_path)
    started_by = own_place(ranks)
    if started_by is None:
        on_this_host(plan, ranks or LOCAL_RANKS, outputs)
    else:
        as_rank(plan, started_by, outputs)


def peers_of(text: str) -> list[str]:
    names = [] if text == "none" else text.split(",")
    if OURS in names or not all(names):
        raise typer.BadParameter(f"--vs {text}: accepted are names of other backends, or none")
    return list(dict.fromkeys(names))


def own_place(ranks: int | None) -> Place | None:
    """None: no launcher has started this process as one of several ranks."""
    try:
        place = launchers.find_place(environment.launcher_variables())
    except RuntimeError as error:
        if ranks is not None:
            return None
        raise typer.BadParameter(
            f"{error}. With --ranks N it starts N on this host, whatever is set"
        ) from error
    if place.launcher == launchers.NOBODY:
        return None
    if ranks not in (None, place.size):
        raise typer.BadParameter(
            f"--ranks {ranks}, but this is rank {place.rank} of {place.size} of {place.launcher}: "
            "leave --ranks out to measure these, or start the program without a launcher"
        )
    return place


def on_this_host(plan: Plan, ranks: int, outputs: Outputs) -> None:
    plan = plan.on_ranks(ranks)
    try:
        options.resolve()  # else each rank would refuse a bad value
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if problem := nothing_to_do(plan) or outputs.problem(plan) or missing_peers(plan):
        raise typer.BadParameter(problem)
    rows = [Row(HOST, ranks, case) for case in plan.cases]
    local_ranks.end_in_order()
    try:
        with shown(plan, f"{ranks} ranks") as block_done:
            collector = Collector(rows, block_done)
            local_ranks.measure(lambda report: local_ranks.start(plan, ranks, report), collector)
    except local_ranks.RankError as error:
        typer.echo(f"rocecoll bench: {error}", err=True)
        raise typer.Exit(output.Status.PROBLEMS) from error
    raise typer.Exit(present(plan, collector, outputs))


def as_rank(plan: Plan, place: Place, outputs: Outputs) -> None:
    """Ends the process: groups that have given up would keep it from ending."""
    from rocecoll.bench import rank  # loads torch
    from rocecoll.bench.peers import TorchPeer

    plan = plan.on_ranks(place.size)
    first = place.rank == 0

    def body() -> int:
        settings = options.resolve()
        ifname, family = settings["socket_ifname"], settings["socket_family"]
        chosen = choose_interface(ifname, family, environment.master_address()).interface
        interface = None if chosen.address.is_loopback else chosen.name
        rank.join(interface)
        hosts = rank.introduce(plan, (first and outputs.problem(plan)) or nothing_to_do(plan))
        network = HOST if hosts == 1 else HOSTS
        rows = [Row(network, place.size, case, hosts=hosts) for case in plan.cases]
        with shown(plan, rows[0].where, hidden=not first) as block_done:
            collector = Collector(rows, block_done)
            peers = [TorchPeer(name, interface) for name in plan.contenders]
            rank.measure(plan, peers, collector.take)
        return present(plan, collector, outputs) if first else verdict(rows)

    rank.run(body)


def missing_peers(plan: Plan) -> str:
    """Loads torch, which takes time, only to ask about backends that not every torch has."""
    if set(plan.peers) <= {"gloo"}:
        return ""
    from rocecoll.bench.peers import missing

    return missing(plan.peers)


def nothing_to_do(plan: Plan) -> str:
    return "" if plan.cases else "one rank has nobody to send to"


@contextmanager
def shown(plan: Plan, where: str, hidden: bool = False) -> Iterator[Callable[[], None]]:
    """Shows the progress; yields what to call after each block."""
    with bar(hidden) as progress:
        task = progress.add_task(where, total=plan.most_blocks)
        yield lambda: progress.advance(task)


def verdict(rows: Sequence[Row]) -> output.Status:
    return output.Status.PROBLEMS if bench_view.problems(rows) else output.Status.FINE


def present(plan: Plan, collector: Collector, outputs: Outputs) -> output.Status:
    """Writes the results to the files that were asked for."""
    rows = collector.rows
    if outputs.json:
        output.print_json(bench_view.all_figures(plan, collector))
    else:
        bench_view.show(collector)
    for problem in bench_view.problems(rows):
        typer.echo(f"rocecoll bench: {problem}", err=True)
    written = True
    if outputs.file is not None:
        figures = bench_view.all_figures(plan, collector)
        written &= write(outputs.file, lambda path: output.write_json(path, figures))
    if outputs.plot is not None:
        written &= write(outputs.plot, lambda path: plot.draw(rows, path))
    return verdict(rows) if written else output.Status.PROBLEMS


def write(path: Path, how: Callable[[Path], None]) -> bool:
    """Whether it could; else says why not."""
    try:
        how(path)
    except OSError as error:  # which names no file where the disk is full
        typer.echo(f"rocecoll bench: cannot write {path}: {error.strerror}", err=True)
        return False
    return True
