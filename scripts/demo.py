# SPDX-License-Identifier: Apache-2.0
"""Runs examples/train_digits.py over rocecoll and then over gloo, and compares the two."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
ACCURACY_BAR = 0.95
LOSS_BAR = 1e-5
TIME_LIMIT_S = 600

console = Console()


def read_rows(report: Path) -> list[dict]:
    """The epochs reported so far; a line still being written is left for the next call."""
    if not report.exists():
        return []
    return [
        json.loads(line)
        for line in report.read_text().splitlines(keepends=True)
        if line.endswith("\n")
    ]


def epoch_table(title: str, rows: list[dict]) -> Table:
    table = Table(title=title, title_justify="left")
    paths = list(rows[0]["bytes"])  # the counters that add up to a rank's bytes
    columns = ["epoch", "loss", "accuracy", "test accuracy", "seconds"]
    for column in columns + [f"MB per rank over {path}" for path in paths]:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            str(row["epoch"]),
            f"{row['loss']:.6f}",
            f"{row['accuracy']:.2%}",
            f"{row['test_accuracy']:.2%}",
            f"{row['seconds']:.2f}",
            *(f"{row['bytes'][path] / 1e6:.2f}" for path in paths),
        )
    return table


def named(transport: str) -> dict[str, str]:
    """The options that send everything over this transport, although the ranks share a host."""
    return {"ROCECOLL_TRANSPORT": transport, "ROCECOLL_SHM": "0"}


def train(backend: str, ranks: int, epochs: int, transport: str, directory: Path) -> list[dict]:
    """One training under torchrun; returns its epochs, or exits with the output of a failure."""
    report = directory / f"{backend}.jsonl"
    output = directory / f"{backend}.log"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(ranks), str(ROOT / "examples/train_digits.py")]
    command += ["--backend", backend, "--epochs", str(epochs), "--report", str(report)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment |= {"ROCECOLL_SHM": "1"} if transport == "shm" else named(transport)
    title = f"{backend} ({transport})" if backend == "rocecoll" else backend
    progress = Progress(
        TextColumn(f"{title}: {ranks} ranks"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    task = progress.add_task(title, total=epochs)
    deadline = time.monotonic() + TIME_LIMIT_S
    with output.open("w") as log, progress:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            while process.poll() is None and time.monotonic() < deadline:
                progress.update(task, completed=len(read_rows(report)))
                time.sleep(0.1)
        finally:
            if process.poll() is None:
                process.terminate()  # torchrun then ends its ranks
            process.wait(timeout=60)
        rows = read_rows(report)
        progress.update(task, completed=len(rows))
    if process.returncode != 0 or len(rows) != epochs:
        console.print(output.read_text(), markup=False, highlight=False)
        console.print(f"[red]training over {backend} failed[/red]")
        raise typer.Exit(1)
    console.print(epoch_table(title, rows))
    return rows


def main(
    ranks: Annotated[int, typer.Option(min=1, help="processes on this machine")] = 2,
    epochs: Annotated[int, typer.Option(min=1)] = 10,
    transport: Annotated[
        str,
        typer.Option(help="what rocecoll runs over: shm, as by itself on one host, or udp, ..."),
    ] = "shm",
) -> None:
    """Train handwritten digits over rocecoll, then over gloo, and compare."""
    with tempfile.TemporaryDirectory(prefix="rocecoll-demo-") as directory:
        ours, reference = (
            train(backend, ranks, epochs, transport, Path(directory))
            for backend in ("rocecoll", "gloo")
        )
    accuracy = ours[-1]["test_accuracy"]
    difference = max(
        abs(mine["loss"] - other["loss"]) / abs(other["loss"])
        for mine, other in zip(ours, reference, strict=True)
    )
    accurate = accuracy >= ACCURACY_BAR
    equal = difference <= LOSS_BAR
    console.print(
        f"test accuracy over rocecoll {accuracy:.2%} (at least {ACCURACY_BAR:.0%} expected)"
    )
    console.print(
        f"largest relative difference of the loss curves {difference:.1e}"
        f" (at most {LOSS_BAR:.0e} expected)"
    )
    console.print("[green]ok[/green]" if accurate and equal else "[red]failed[/red]")
    raise typer.Exit(0 if accurate and equal else 1)


if __name__ == "__main__":
    typer.run(main)
