# SPDX-License-Identifier: Apache-2.0
"""Runs commands where Soft-RoCE devices are: on this kernel, or on one brought along."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from softroce_bed import beds
from softroce_bed.bed import EXIT_BROKEN, BedError, Job

BedOption = Annotated[beds.Name, typer.Option("--bed", help="which kernel; docs/softroce.md")]

application = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)


@application.command()
def setup(bed: BedOption = beds.Name.auto) -> None:
    """Install and build what a bed needs; nothing if it is all there."""
    chosen = beds.choose(bed)
    chosen.setup()
    print(f"softroce: {chosen.name} is ready")


@application.command(context_settings={"allow_interspersed_args": False})
def run(
    command: Annotated[list[str], typer.Argument(help="after --")],
    bed: BedOption = beds.Name.auto,
    guests: Annotated[int, typer.Option(min=1, max=2, help="2: one end of the wire in each")] = 1,
    netem: Annotated[str, typer.Option(help="faults at both ends, as 'loss 1%'")] = "",
    time_limit: Annotated[float, typer.Option(min=1, help="seconds")] = 600,
    memory_mib: Annotated[int, typer.Option(min=256, help="of each guest")] = 3072,
    out: Annotated[Path | None, typer.Option(help="gets what is left in $SOFTROCE_OUT")] = None,
) -> None:
    """Run a command with rxe devices ready; pass on its output and exit status."""
    chosen = beds.choose(bed)
    chosen.setup()
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


def main() -> None:
    try:
        application()
    except BedError as error:
        print(f"softroce: {error}", file=sys.stderr)
        sys.exit(EXIT_BROKEN)


if __name__ == "__main__":
    main()
