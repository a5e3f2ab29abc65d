# SPDX-License-Identifier: Apache-2.0
"""Runs PyTorch's own tests of a c10d backend against rocecoll, and ends in one summary line.

They come with torch (torch.testing._internal.distributed.distributed_test) and are not changed. The
results of gloo in the same tests are kept beside the code that runs them: where gloo passes, rocecoll
must neither fail nor skip.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import IO, Annotated

import typer
from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))

from conformance.controller import Result, Setup, Status, Suite  # noqa: E402

KEPT = ROOT / "tests" / "python" / "conformance"
LOG = ROOT / "build" / "torch_suite.log"
# (world size, gate, names): every test that gloo takes, those for groups of 8, and the uneven
# exchanges, which torch tests with MPI alone.
NIGHTLY = ((3, "gloo", ""), (8, "gloo", ""), (3, "mpi", "all_to_all"))

console = Console(highlight=False, soft_wrap=True, markup=False)


class Backend(str, Enum):
    rocecoll = "rocecoll"
    gloo = "gloo"


def kept_baseline(setup: Setup) -> Path:
    return KEPT / f"gloo_{setup.world_size}_as_{setup.gate}.txt"


def read_baseline(path: Path) -> dict[str, Status]:
    lines = [line.split(maxsplit=2) for line in path.read_text().splitlines()]
    return {line[1]: Status(line[0]) for line in lines}


def write_results(path: Path, results: Iterable[Result]) -> None:
    """The results as a baseline, without texts of failures, which differ from run to run."""
    path.write_text(
        "".join(
            f"{result.status.value} {result.name}"
            + (f" {result.line}\n" if result.status is Status.skipped else "\n")
            for result in results
        )
    )


def run_tests(setup: Setup, pattern: str, log: IO[bytes]) -> list[Result]:
    console.print(
        f"== {setup.backend}, world size {setup.world_size}, the tests of {setup.gate}"
        + (f" that match {pattern!r}" if pattern else "")
    )
    results = []
    with Suite(setup, log) as suite:
        names = [name for name in suite.names() if re.search(pattern, name)]
        for name in names:
            result = suite.run(name)
            results.append(result)
            if result.status is not Status.skipped:
                console.print(
                    f"[{len(results)}/{len(names)}] {result.status.value} {name} "
                    f"{result.seconds:.1f} s {result.line}".rstrip()
                )
    return results


def report(results: list[Result], baseline: dict[str, Status]) -> int:
    """Prints skips, failures and results worse than the baseline; returns how many are bad."""
    of = {status: [result for result in results if result.status is status] for status in Status}
    reasons = Counter(re.sub(r"\d+", "N", result.line) for result in of[Status.skipped])
    for reason, count in reasons.most_common():
        console.print(f"skipped {count}: {reason}")
    lost = [r for r in of[Status.skipped] if baseline.get(r.name) is Status.passed]
    won = [r for r in of[Status.passed] if baseline.get(r.name) not in (None, Status.passed)]
    for result in of[Status.failed]:
        console.print(f"failed: {result.name}: {result.line}")
    for result in lost:
        console.print(f"skipped where gloo passes: {result.name}: {result.line}")
    for result in won:
        console.print(f"passes where gloo does not: {result.name}")
    return len(of[Status.failed]) + len(lost)


def summary(results: list[Result]) -> str:
    counts = Counter(result.status for result in results)
    return (
        f"{counts[Status.passed]} passed, {counts[Status.failed]} failed, "
        f"{counts[Status.skipped]} skipped"
    )


def main(
    world_size: Annotated[int, typer.Option(min=1, help="ranks")] = 3,
    keyword: Annotated[str, typer.Option("-k", help="regular expression for names")] = "",
    backend: Annotated[Backend, typer.Option(help="gloo to compare with")] = Backend.rocecoll,
    gate_as: Annotated[str, typer.Option(help="the backend whose tests are taken")] = "gloo",
    timeout: Annotated[int, typer.Option(min=1, help="seconds a test")] = 120,
    baseline: Annotated[Path | None, typer.Option(help="else gloo's, if one is kept")] = None,
    out: Annotated[Path | None, typer.Option(help="write the results as a baseline")] = None,
    nightly: Annotated[bool, typer.Option("--nightly", help="world sizes 3, 8; MPI's")] = False,
) -> None:
    """Run PyTorch's own tests of a c10d backend."""
    one = Setup(backend.value, gate_as, world_size, timeout)
    runs = [(one, keyword)]
    if nightly:
        runs = [(replace(one, world_size=n, gate=gate), names) for n, gate, names in NIGHTLY]
    LOG.parent.mkdir(exist_ok=True)
    bad, everything, lines = 0, [], []
    with LOG.open("wb", buffering=0) as log:
        for setup, pattern in runs:
            started = time.monotonic()
            results = run_tests(setup, pattern, log)
            if out and not nightly:
                write_results(out, results)
            expected = baseline or kept_baseline(setup)
            bad += report(results, read_baseline(expected) if expected.exists() else {})
            everything += results
            seconds = time.monotonic() - started
            lines.append(
                f"world size {setup.world_size}, {setup.gate}'s {pattern or 'tests'}: "
                f"{summary(results)} in {seconds:.0f} s"
            )
    console.print(f"output of the tests: {LOG}")
    for line in lines:
        console.print(line)
    if not everything:
        console.print("nothing was run")
    console.print(summary(everything))
    raise typer.Exit(1 if bad or not everything else 0)


if __name__ == "__main__":
    typer.run(main)
