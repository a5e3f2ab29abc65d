# SPDX-License-Identifier: Apache-2.0
"""Runs commands where Soft-RoCE devices are: on this kernel, or on one brought along."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from softroce_bed import beds, roce, step_runner
from softroce_bed.bed import (
    EXIT_BROKEN,
    EXIT_IMPOSSIBLE,
    BedError,
    ImpossibleError,
    Job,
    say,
)
from softroce_bed.stopping import StoppedError, signals_raise
from test_report import Tally, read_junit

ROOT = Path(__file__).resolve().parent.parent
BedOption = Annotated[beds.Name, typer.Option("--bed", help="which kernel; docs/softroce.md")]
NetemOption = Annotated[str, typer.Option(help="faults at both ends, as 'loss 1%'")]
MemoryOption = Annotated[int, typer.Option(min=256, help="of each guest")]

application = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)


@application.command()
def setup(bed: BedOption = beds.Name.auto) -> None:
    """Install and build what a bed needs; nothing if it is all there."""
    chosen = beds.prepared(bed)
    say(f"{chosen.name} is ready")


@application.command(context_settings={"allow_interspersed_args": False})
def run(
    command: Annotated[list[str], typer.Argument(help="after --")],
    bed: BedOption = beds.Name.auto,
    guests: Annotated[int, typer.Option(min=1, max=2, help="2: one end of the wire in each")] = 1,
    netem: NetemOption = "",
    time_limit: Annotated[float, typer.Option(min=1, help="seconds")] = 600,
    memory_mib: MemoryOption = 3072,
    out: Annotated[Path | None, typer.Option(help="gets what is left in $SOFTROCE_OUT")] = None,
) -> None:
    """Run a command with rxe devices ready; pass on its output and exit status."""
    chosen = beds.prepared(bed)
    job = Job(
        command=tuple(command),
        directory=Path.cwd(),
        environment=dict(os.environ),
        guests=guests,
        netem=netem,
        limit_s=time_limit,
        memory_mib=memory_mib,
        out=out,
    )
    raise typer.Exit(chosen.run(job))


@application.command()
def shell(
    bed: BedOption = beds.Name.auto,
    netem: NetemOption = "",
    memory_mib: MemoryOption = 3072,
) -> None:
    """Open a shell with rxe devices ready, at most for a day."""
    chosen = beds.prepared(bed)
    job = Job(
        command=(os.environ.get("SHELL") or "bash", "-i"),
        directory=Path.cwd(),
        environment=dict(os.environ),
        netem=netem,
        limit_s=24 * 3600,
        memory_mib=memory_mib,
        interactive=True,
    )
    raise typer.Exit(chosen.run(job))


@application.command()
def test(
    bed: BedOption = beds.Name.auto,
    keyword: Annotated[str, typer.Option("-k", help="only tests whose name contains this")] = "",
    results: Annotated[Path, typer.Option(help="gets JUnit XML")] = ROOT / "build" / "softroce",
    nightly: Annotated[
        bool, typer.Option("--nightly", help="at the full numbers: an hour")
    ] = False,
) -> None:
    """Run the RoCE tests, each on a freshly booted guest, as many at once as there is room for."""
    step_runner.empty(results)
    try:
        chosen = beds.prepared(bed)
    except ImpossibleError as error:
        step_runner.write_cases([step_runner.skipped("every test", str(error))], results)
    else:
        roce.build_cpp_tests()
        steps = roce.NIGHTLY_STEPS if nightly else roce.STEPS
        if nightly:
            os.environ["TEST_NIGHTLY"] = "1"  # guests have it from here
        step_runner.run_tests(chosen, [step for step in steps if keyword in step.name], results)
    tally = Tally()
    for path in sorted(results.rglob("*.xml")):
        tally.add(read_junit(path))
    for reason, count in sorted(tally.skips.items()):
        print(f"skipped {count}: {reason}")
    for name in tally.failures:
        print(f"failed: {name}")
    print(tally.summary())
    raise typer.Exit(1 if tally.failures or not tally.passed else 0)


def main() -> None:
    try:
        with signals_raise():
            application()
    except StoppedError as stopped:
        say(str(stopped))
        sys.exit(stopped.exit_status)
    except BedError as error:
        say(str(error))
        sys.exit(EXIT_IMPOSSIBLE if isinstance(error, ImpossibleError) else EXIT_BROKEN)


if __name__ == "__main__":
    main()
