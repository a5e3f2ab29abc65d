# SPDX-License-Identifier: Apache-2.0
"""The program `rocecoll`: which commands there are."""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import rocecoll
from rocecoll.cli.output import Status

# Modules, each with the function of its command's name.
COMMANDS = {
    "bench": "rocecoll.cli.bench",
    "config": "rocecoll.cli.config",
    "devices": "rocecoll.cli.devices",
    "doctor": "rocecoll.cli.doctor",
    "explain": "rocecoll.cli.explain",
    "status": "rocecoll.cli.status",
    "trace": "rocecoll.cli.trace",
}
PLAIN: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,  # boxes are hard to read in a log
    "pretty_exceptions_enable": False,
}


class Commands(TyperGroup):
    """Loads the one that is called, as all of them take twice as long to begin."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name])
        alone = typer.Typer(**PLAIN)
        alone.command(cmd_name)(getattr(module, cmd_name))
        return typer.main.get_command(alone)


app = typer.Typer(name="rocecoll", cls=Commands, no_args_is_help=True, **PLAIN)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(rocecoll.__version__)
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Tells what rocecoll, a backend of torch.distributed, finds here, and how fast it is.

    Exit status: 0 all is well, 1 there are problems, 2 the command line is wrong.

    Example: rocecoll config
    """
    try:
        from rocecoll import _core  # noqa: F401 (every command needs it)
    except ImportError as error:
        typer.echo(
            f"rocecoll: its own library cannot be loaded: {error}. If it was not built, run "
            "`pip install --no-build-isolation .` in its source tree",
            err=True,
        )
        raise typer.Exit(Status.PROBLEMS) from error


def main() -> None:
    app(prog_name="rocecoll")
