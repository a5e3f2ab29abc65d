# SPDX-License-Identifier: Apache-2.0
"""How the commands write: for a terminal, for a pipe and for programs."""

from __future__ import annotations

import json
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

# The option that every command has.
Json = Annotated[bool, typer.Option("--json", help="Write JSON, for programs.")]

DAY_S = 86_400.0  # the longest that a command waits: much more is no time that a clock has


class Status(IntEnum):
    """Exit statuses for scripts; typer uses 2 if the command line itself is wrong."""

    FINE = 0
    PROBLEMS = 1


def console() -> Console:
    """Colours only on a terminal, and 80 columns if the width is unknown."""
    return Console(highlight=False, markup=False, emoji=False)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=1))


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")


def exit_with(problems: bool) -> None:
    raise typer.Exit(Status.PROBLEMS if problems else Status.FINE)
