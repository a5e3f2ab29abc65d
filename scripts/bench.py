# SPDX-License-Identifier: Apache-2.0
"""Times collectives over rocecoll and gloo in the same processes, block by block in turn.

Blocks run in the order A B B A, so that a machine that grows slower or busier hurts both alike.
An iteration takes as long as its slowest rank. Results are verified outside the timed part.
`--network NAME` does so between two network namespaces, over a network that loses packets or has a
slow port. `--limit perftest` compares in a guest of scripts/softroce instead (scripts/benchmarks).
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated

import torch
import torch.distributed as dist
import typer
from benchmarks import network_bench, network_results, networks, yardsticks
from benchmarks.cases import MIB, Transport, size_text
from benchmarks.operations import Case, Operation
from rich.console import Console
from rich.table import Table
from softroce_bed import beds, packages
from softroce_bed.bed import EXIT_BROKEN, EXIT_IMPOSSIBLE, BedError, ImpossibleError

SIZES = (8, 1024, 64 * 1024, MIB, 64 * MIB)
NETWORK_SIZES = (MIB,)
BACKENDS = ("rocecoll", "gloo")
ORDER = ("rocecoll", "gloo", "gloo", "rocecoll")
LIMIT_S = 1800


class Limit(str, Enum):
    perftest = "perftest"


def timed_block(case: Case, group: dist.ProcessGroup, iterations: int) -> list[float]:
    """Seconds of each iteration on this rank; the ranks start together."""
    dist.barrier(group=group)
    for _ in range(max(1, iterations // 10)):
        case.run(group)
    times = []
    for _ in range(iterations):
        started = time.perf_counter()
        case.run(group)
        times.append(time.perf_counter() - started)
    return times


def slowest(times: list[float], group: dist.ProcessGroup) -> list[float]:
    tensor = torch.tensor(times, dtype=torch.float64)
    dist.all_reduce(tensor, dist.ReduceOp.MAX, group=group)
    return tensor.tolist()


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def iterations_for(size_bytes: int) -> int:
    """Many where one is short; the large ones take a second or so a block."""
    return max(5, min(500, 32 * 1024 * 1024 // max(1, size_bytes)))


def measure(case: Case, size_bytes: int, rounds: int, groups: dict) -> dict:
    for group in groups.values():
        case.verify(group)
    iterations = iterations_for(size_bytes)
    samples: dict[str, list[float]] = {name: [] for name in groups}
    ratios = []
    for _ in range(rounds):
        medians: dict[str, list[float]] = {name: [] for name in groups}
        for name in ORDER:
            times = slowest(timed_block(case, groups[name], iterations), groups["gloo"])
            samples[name] += times
            medians[name].append(statistics.median(times))
        ratios.append(statistics.mean(medians["gloo"]) / statistics.mean(medians["rocecoll"]))
    for group in groups.values():
        case.verify(group)
    row: dict = {"operation": case.operation.value, "bytes": size_bytes, "ranks": case.ranks}
    for name, values in samples.items():
        row[name] = {
            "median_us": statistics.median(values) * 1e6,
            "p10_us": percentile(values, 0.1) * 1e6,
            "p90_us": percentile(values, 0.9) * 1e6,
        }
    ratio = statistics.median(ratios)
    return {**row, "ratio": ratio, "ratio_min": min(ratios), "ratio_max": max(ratios)}


def run_rank(operations: list[Operation], sizes: list[int], rounds: int, report: Path) -> None:
    import rocecoll  # noqa: F401  registers the backend

    torch.set_num_threads(1)
    dist.init_process_group("rocecoll", timeout=timedelta(seconds=300))
    groups = {"rocecoll": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    # Afterwards, because a backend may ask how many cores its process has.
    local, cores = int(os.environ["LOCAL_RANK"]), sorted(os.sched_getaffinity(0))
    if int(os.environ["LOCAL_WORLD_SIZE"]) <= len(cores):
        os.sched_setaffinity(0, {cores[local]})
    for operation in operations:
        for size_bytes in sizes:
            row = measure(Case(operation, size_bytes), size_bytes, rounds, groups)
            if dist.get_rank() == 0:
                with report.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(f"{operation.value} {size_bytes} B done", file=sys.stderr, flush=True)
    dist.destroy_process_group()


def result_table(rows: list[dict], ranks: int) -> Table:
    table = Table(title=f"{ranks} ranks, us of the slowest rank")
    for column in ("operation", "size", *(f"{n} {c}" for n in BACKENDS for c in ("us", "10-90 %"))):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("gloo/rocecoll", justify="right", no_wrap=True)
    table.add_column("rounds", justify="right", no_wrap=True)
    for row in rows:
        cells = [row["operation"], size_text(row["bytes"])]
        for name in BACKENDS:
            cells.append(f"{row[name]['median_us']:.1f}")
            cells.append(f"{row[name]['p10_us']:.1f}-{row[name]['p90_us']:.1f}")
        cells.append(f"{row['ratio']:.2f}")
        cells.append(f"{row['ratio_min']:.2f}-{row['ratio_max']:.2f}")
        table.add_row(*cells)
    return table


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


def run_on_networks(names: list[str], plan: network_bench.Plan) -> list[dict]:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the networks go, too
    try:
        specs = [networks.parse(name) for name in names]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    rows = []
    try:
        packages.install("network")
        for spec in specs:
            rows += network_bench.measure(spec, plan)
            print(f"{spec.name} done", file=sys.stderr, flush=True)
    except (BedError, networks.NetworkError, network_bench.RankError) as error:
        print(f"bench: {error}", file=sys.stderr)
        raise typer.Exit(EXIT_BROKEN) from error
    tcp = plan.tcp or Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    wide_console(160).print(network_results.table(rows, f"2 hosts, gloo over TCP with {tcp}"))
    return [asdict(row) for row in rows]


def wide_console(least: int = 124) -> Console:
    console = Console()
    console.width = max(console.width, least)  # the table does not wrap in a pipe
    return console


def launch(ranks: int, arguments: list[str], report: Path) -> list[dict]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(ranks), __file__, *arguments, "--report", str(report)]
    subprocess.run(command, check=True, timeout=LIMIT_S, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return [json.loads(line) for line in report.read_text().splitlines()]


def write_rows(path: Path | None, rows: list[dict]) -> None:
    if path is not None:
        path.write_text(json.dumps(rows, indent=1) + "\n")


def main(
    ranks: Annotated[list[int], typer.Option(min=1, help="may be repeated")] = [2],  # noqa: B006
    op: Annotated[list[Operation], typer.Option()] = [Operation.all_reduce],  # noqa: B006
    size: Annotated[list[int] | None, typer.Option(min=4, help="bytes")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="A B B A blocks per size")] = 5,
    json_path: Annotated[Path | None, typer.Option("--json", help="write all rows here")] = None,
    transport: Annotated[Transport | None, typer.Option(help="with --limit")] = None,
    limit: Annotated[
        Limit | None, typer.Option(help="compare in a guest with RoCE devices")
    ] = None,
    bed: Annotated[beds.Name, typer.Option(help="which guest, with --limit")] = beds.Name.auto,
    network: Annotated[
        list[str] | None,
        typer.Option(
            help="between namespaces: loss-PERCENT, shaped- or marked-RATE-BUFFER; may be repeated"
        ),
    ] = None,
    socket_buffer: Annotated[
        int | None, typer.Option(help="bytes, of rocecoll's socket, with --network")
    ] = None,
    tcp: Annotated[
        str | None, typer.Option(help="gloo's congestion control, with --network, e.g. cubic")
    ] = None,
    report: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Compare rocecoll with gloo, interleaved in one run; or with perftest and OpenMPI.

    Networks need root, and two ranks run on them. loss-P loses P percent of all packets at random,
    both ways; beside loss-0, the share of its rate is told. shaped-RATE-BUFFER is a switch whose
    ports send at RATE and hold BUFFER, in the words of tc: shaped-1gbit-64kb; marked-RATE-BUFFER
    marks (ECN) what finds more than half of BUFFER in use.
    """
    if limit is not None:
        run_in_bed(transport, rounds, bed)
    sizes = size or list(NETWORK_SIZES if network else SIZES)
    if network:
        values = [operation.value for operation in op]
        plan = network_bench.Plan(values, sizes, rounds, socket_buffer, tcp)
        write_rows(json_path, run_on_networks(network, plan))
        return
    if report is not None:  # under torchrun: one rank
        run_rank(op, sizes, rounds, report)
        return
    arguments = ["--rounds", str(rounds)]
    for one in op:
        arguments += ["--op", one.value]
    for number in sizes:
        arguments += ["--size", str(number)]
    console, everything = wide_console(), []
    with tempfile.TemporaryDirectory(prefix="rocecoll-bench-") as directory:
        for number in ranks:
            rows = launch(number, arguments, Path(directory) / f"{number}.jsonl")
            console.print(result_table(rows, number))
            everything += rows
    write_rows(json_path, everything)


if __name__ == "__main__":
    typer.run(main)
