# SPDX-License-Identifier: Apache-2.0
"""Times collectives over rocecoll and gloo in the same processes, block by block in turn.

Blocks run in the order A B B A, so that a machine that grows slower or busier hurts both alike.
An iteration takes as long as its slowest rank. Results are verified outside the timed part.
`--limit perftest` compares in a guest of scripts/softroce instead (scripts/benchmarks).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated

import torch
import torch.distributed as dist
import typer
from benchmarks import yardsticks
from benchmarks.cases import Transport, size_text
from rich.console import Console
from rich.table import Table
from softroce_bed import beds
from softroce_bed.bed import EXIT_BROKEN, EXIT_IMPOSSIBLE, BedError, ImpossibleError

SIZES = (8, 1024, 64 * 1024, 1024 * 1024, 64 * 1024 * 1024)
BACKENDS = ("rocecoll", "gloo")
ORDER = ("rocecoll", "gloo", "gloo", "rocecoll")
LIMIT_S = 1800


class Operation(str, Enum):
    all_reduce = "all_reduce"
    all_gather = "all_gather"
    reduce_scatter = "reduce_scatter"
    all_to_all = "all_to_all"
    broadcast = "broadcast"


class Limit(str, Enum):
    perftest = "perftest"


class Case:
    """One operation on buffers of one size: `bytes` of float32 is the larger side of a rank."""

    def __init__(self, operation: Operation, size_bytes: int) -> None:
        self.operation = operation
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.block = max(1, size_bytes // 4 // self.ranks)
        total = self.block * self.ranks
        self.whole = torch.zeros(size_bytes // 4 if operation in WHOLE else total)
        self.part = torch.zeros(self.block)
        self.other = torch.zeros(total) if operation is Operation.all_to_all else None

    def run(self, group: dist.ProcessGroup) -> None:
        if self.operation is Operation.all_reduce:
            dist.all_reduce(self.whole, group=group)
        elif self.operation is Operation.broadcast:
            dist.broadcast(self.whole, 0, group=group)
        elif self.operation is Operation.all_gather:
            dist.all_gather_into_tensor(self.whole, self.part, group=group)
        elif self.operation is Operation.reduce_scatter:
            dist.reduce_scatter_tensor(self.part, self.whole, group=group)
        else:
            dist.all_to_all_single(self.other, self.whole, group=group)

    def verify(self, group: dist.ProcessGroup) -> None:
        """Runs once on known numbers and compares everything that was produced."""
        mine, total = self.rank + 1.0, self.ranks * (self.ranks + 1) / 2
        self.whole.fill_(mine)
        self.part.fill_(mine)
        self.run(group)
        by_rank = torch.arange(1.0, self.ranks + 1).repeat_interleave(self.block)
        actual, expected = {
            Operation.all_reduce: (self.whole, torch.full_like(self.whole, total)),
            Operation.broadcast: (self.whole, torch.ones_like(self.whole)),
            Operation.all_gather: (self.whole, by_rank),
            Operation.reduce_scatter: (self.part, torch.full_like(self.part, total)),
            Operation.all_to_all: (self.other, by_rank),
        }[self.operation]
        if not torch.equal(actual, expected):
            raise SystemExit(f"rank {self.rank}: wrong result of {self.operation.value}")
        self.whole.zero_()  # repeated sums of zeros stay zero
        self.part.zero_()


WHOLE = (Operation.all_reduce, Operation.broadcast)


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


def wide_console() -> Console:
    console = Console()
    console.width = max(console.width, 124)  # the table does not wrap in a pipe
    return console


def launch(ranks: int, arguments: list[str], report: Path) -> list[dict]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(ranks), __file__, *arguments, "--report", str(report)]
    subprocess.run(command, check=True, timeout=LIMIT_S, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return [json.loads(line) for line in report.read_text().splitlines()]


def main(
    ranks: Annotated[list[int], typer.Option(min=1, help="may be repeated")] = [2],  # noqa: B006
    op: Annotated[list[Operation], typer.Option()] = [Operation.all_reduce],  # noqa: B006
    size: Annotated[list[int], typer.Option(min=4, help="bytes")] = list(SIZES),  # noqa: B006
    rounds: Annotated[int, typer.Option(min=1, help="A B B A blocks per size")] = 5,
    json_path: Annotated[Path | None, typer.Option("--json", help="write all rows here")] = None,
    transport: Annotated[Transport | None, typer.Option(help="with --limit")] = None,
    limit: Annotated[
        Limit | None, typer.Option(help="compare in a guest with RoCE devices")
    ] = None,
    bed: Annotated[beds.Name, typer.Option(help="which guest, with --limit")] = beds.Name.auto,
    report: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Compare rocecoll with gloo, interleaved in one run; or with perftest and OpenMPI."""
    if limit is not None:
        run_in_bed(transport, rounds, bed)
    if report is not None:  # under torchrun: one rank
        run_rank(op, size, rounds, report)
        return
    arguments = ["--rounds", str(rounds)]
    for one in op:
        arguments += ["--op", one.value]
    for number in size:
        arguments += ["--size", str(number)]
    console, everything = wide_console(), []
    with tempfile.TemporaryDirectory(prefix="rocecoll-bench-") as directory:
        for number in ranks:
            rows = launch(number, arguments, Path(directory) / f"{number}.jsonl")
            console.print(result_table(rows, number))
            everything += rows
    if json_path is not None:
        json_path.write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
