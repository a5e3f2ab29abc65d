# SPDX-License-Identifier: Apache-2.0
"""The program `rocecoll`: which commands there are."""

from __future__ import annotations

import importlib
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

import rocecoll
from rocecoll.cli.output import Status
from rocecoll.notes import named
from rocecoll.runtime import how_to_build


class Command(NamedTuple):
    """The command's module has a function of the command's name; its help begins with the summary."""

    module: str
    summary: str


COMMANDS = {
    "bench": Command("rocecoll.cli.bench", "Times collectives over rocecoll and over gloo."),
    "config": Command("rocecoll.cli.config", "Lists every option, its value here and its origin."),
    "devices": Command(
        "rocecoll.cli.devices", "Lists network interfaces and RDMA ports with their GIDs."
    ),
    "doctor": Command(
        "rocecoll.cli.doctor", "Says whether this machine is fit, and how to mend it."
    ),
    "explain": Command(
        "rocecoll.cli.explain", "Says why rocecoll has said something, and what to do about it."
    ),
    "status": Command("rocecoll.cli.status", "Shows what the ranks on this host are doing now."),
    "trace": Command("rocecoll.cli.trace", "Says what took how long, and which rank came last."),
}
PLAIN: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,  # boxes are hard to read in a log
    "pretty_exceptions_enable": False,
}


class Commands(TyperGroup):
    """Loads only the command that is called, and none to list them: loading all doubles the start."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name].module)
        alone = typer.Typer(**PLAIN)
        alone.command(cmd_name)(getattr(module, cmd_name))
        return typer.main.get_command(alone)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.summary) for name, one in COMMANDS.items()])


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
            named(
                f"its own library cannot be loaded: {error}. If it was not built: {how_to_build()}"
            ),
            err=True,
        )
        raise typer.Exit(Status.PROBLEMS) from error


def main() -> None:
    app(prog_name="rocecoll")
