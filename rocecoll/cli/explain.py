# SPDX-License-Identifier: Apache-2.0
"""rocecoll explain: cause and cure of the messages in a log."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
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
        nothing = "rocecoll explain: no message of rocecoll that docs/messages.md knows"
        typer.echo(nothing + no_such_files(text or []), err=True)
    output.exit_with(not found)


def lines(text: list[str]) -> Iterator[str]:
    """Lines of standard input, of files, or of a message that the shell may have split into words."""
    if not text:
        if isinstance(sys.stdin, io.TextIOWrapper):  # None if it is closed
            sys.stdin.reconfigure(encoding="utf-8", errors="replace")
        yield from sys.stdin or ()
    elif all(map(os.path.exists, text)):  # also a pipe; False for what is too long to be a name
        for one in text:
            with open(one, encoding="utf-8", errors="replace") as file:
                yield from file
    else:
        yield from " ".join(text).splitlines()


def no_such_files(text: Sequence[str]) -> str:
    """Names of files that were taken for words, since at least one of them does not exist."""
    if len(text) > 1 and not any(map(os.path.exists, text)):
        return ""
    missing = [one for one in text if len(one.split()) == 1 and not os.path.exists(one)]
    return f"; there is no file {' or '.join(missing)} either" if missing else ""


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
