# SPDX-License-Identifier: Apache-2.0
"""The options of a measurement's command line that choose its cases, also those of scripts/bench."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from rocecoll.bench import operations, sizes
from rocecoll.bench.operations import Case, DataType, Operation, Place, Reduction


def several(kind: type[Enum], *names: str) -> Any:
    """An option that may be repeated; typer's own list of accepted values does not fit into a line."""
    accepted = ", ".join(one.value for one in kind)
    return typer.Option(*names, metavar="NAME", help=f"{accepted}; may be repeated.")


Operations = Annotated[list[Operation], several(Operation, "--op")]
EveryOperation = Annotated[bool, typer.Option("--all", help="Every operation.")]
Least = Annotated[str, typer.Option("-b", "--minbytes", metavar="SIZE", help="Smallest size.")]
Most = Annotated[str, typer.Option("-e", "--maxbytes", metavar="SIZE", help="Largest size.")]
Factor = Annotated[
    int, typer.Option("-f", "--stepfactor", metavar="N", help="From one size to the next.")
]
DataTypes = Annotated[list[DataType], several(DataType, "-d", "--datatype")]
Reductions = Annotated[list[Reduction], several(Reduction, "-o", "--reduction")]
Places = Annotated[
    list[Place] | None,
    typer.Option(metavar="in|out", help="Where the result goes; else as torch.distributed has it."),
]
Rounds = Annotated[int, typer.Option(min=1, metavar="N", help="There and back through the peers.")]
BlockS = Annotated[
    float, typer.Option(min=0.001, metavar="S", help="Seconds that a peer has in its turn.")
]
OutputPath = Annotated[
    Path | None, typer.Option("--output", metavar="FILE", help="Write all figures as JSON there.")
]
PlotPath = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw latency and bandwidth by size: out.svg."),
]


def steps(minbytes: str, maxbytes: str, stepfactor: int) -> list[int]:
    try:
        return sizes.steps(sizes.parse(minbytes), sizes.parse(maxbytes), stepfactor)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def chosen_cases(
    chosen: Sequence[Operation],
    sizes_bytes: list[int],
    data_types: Sequence[DataType],
    reductions: Sequence[Reduction],
    places: Sequence[Place] | None,
    after_ms: Sequence[float] = (0.0,),
) -> list[Case]:
    found = operations.cases(chosen, sizes_bytes, data_types, reductions, places, after_ms)
    if not found:
        names = ", ".join(one.value for one in chosen)
        raise typer.BadParameter(f"nothing is left to measure: {names} has no result in that place")
    return found
