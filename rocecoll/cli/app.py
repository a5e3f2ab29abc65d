# SPDX-License-Identifier: Apache-2.0
"""The program `rocecoll`: which commands there are."""

from __future__ import annotations

from typing import Annotated

import typer

import rocecoll
from rocecoll.cli.bench import bench
from rocecoll.cli.config import config
from rocecoll.cli.devices import devices
from rocecoll.cli.doctor import doctor
from rocecoll.cli.explain import explain
from rocecoll.cli.output import Status
from rocecoll.cli.status import status
from rocecoll.cli.trace import trace

app = typer.Typer(
    name="rocecoll",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,  # boxes are hard to read in a log
    pretty_exceptions_enable=False,
)


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


app.command()(bench)
app.command()(config)
app.command()(devices)
app.command()(doctor)
app.command()(explain)
app.command()(status)
app.command()(trace)


def main() -> None:
    app(prog_name="rocecoll")
