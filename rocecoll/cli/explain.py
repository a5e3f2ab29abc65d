# SPDX-License-Identifier: Apache-2.0
"""rocecoll explain: cause and cure of the messages in a log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from rocecoll.cli import output
from rocecoll.diagnosis import messages
from rocecoll.diagnosis.messages import Explained


def explain(
    text: Annotated[
        list[str] | None,
        typer.Argument(help="A file, or the message itself; standard input without it."),
    ] = None,
    json: output.Json = False,
) -> None:
    """Says why rocecoll has said something, and what to do about it.

    Looks for known messages in a log or in a line of it. The exit status is 1 where there are none.

    Example: rocecoll explain job.log
    """
    try:
        found = messages.explain(lines(text or []))
    except (OSError, messages.PageError) as error:
        typer.echo(f"rocecoll explain: {error}", err=True)
        raise typer.Exit(output.Status.PROBLEMS) from None
    if json:
        output.print_json([asdict(one) for one in found])
    elif found:
        show(found, output.console())
    else:
        typer.echo("rocecoll explain: no message of rocecoll that docs/messages.md knows", err=True)
    output.exit_with(not found)


def lines(text: list[str]) -> Iterator[str]:
    """Lines of standard input, of files, or of a message that the shell may have split into words."""
    if not text:
        yield from sys.stdin
    elif all(Path(one).is_file() for one in text):
        for one in text:
            with open(one, encoding="utf-8", errors="replace") as file:
                yield from file
    else:
        yield from " ".join(text).splitlines()


def show(found: list[Explained], console: Console) -> None:
    for one in found:
        times = f" ({one.lines} lines)" if one.lines > 1 else ""
        console.print(Text(" / ".join(one.entry.says) + times, "bold"))
        below = (
            Text(f"because: {one.entry.because}"),
            Text(f"cure: {one.entry.cure}"),
            Text(f"docs/{one.entry.page}: {one.entry.section}", "dim"),
        )
        for text in below:
            console.print(Padding(text, (0, 0, 0, 4), expand=False))
