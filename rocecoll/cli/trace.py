# SPDX-License-Identifier: Apache-2.0
"""rocecoll trace: what the traces of the ranks say together."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from rocecoll.cli import output
from rocecoll.diagnosis import traces
from rocecoll.diagnosis.traces import Kind, Lateness, Trace


def trace(
    files: Annotated[list[Path], typer.Argument(help="Of one job, one of each rank.")],
    json: output.Json = False,
    merge: Annotated[
        Path | None, typer.Option("--merge", help="Write all ranks into one file for Perfetto.")
    ] = None,
) -> None:
    """Says what took how long, and which rank came last.

    The files are those of ROCECOLL_TRACE=trace.json or rocecoll.trace(), by which they are told
    apart from other files. Ranks of several hosts are compared by their own clocks.

    Example: rocecoll trace trace.*.json --merge all.json
    """
    try:
        read = [traces.read(path) for path in files]
        if merge is not None:
            traces.write_merged(read, merge)
    except traces.TraceError as error:
        typer.echo(f"rocecoll trace: {error}", err=True)
        raise typer.Exit(output.Status.PROBLEMS) from None
    kinds, late = traces.kinds(read), traces.lateness(read)
    if json:
        found = {
            "kinds": [asdict(kind) for kind in kinds],
            "lateness": [asdict(one) for one in late],
        }
        output.print_json(found)
    else:
        show(read, kinds, late, output.console())


def show(read: list[Trace], kinds: list[Kind], late: list[Lateness], console: Console) -> None:
    calls = sum(kind.calls for kind in kinds)
    ranks = f"{len(read)} rank{'s' if len(read) > 1 else ''}"
    console.print(Text(f"{calls} calls of {ranks}", "bold"))
    if dropped := sum(one.dropped_calls for one in read):
        console.print(f"and {dropped} before them that the traces had no room for")
    for kind in kinds:
        console.print(kind_lines(kind))
    if late:
        console.print(lateness_table(late))


def kind_lines(kind: Kind) -> Text:
    """Two lines, so that the place in the program has one for itself."""
    head = Text(f"{kind.operation} on {kind.group}", "bold")
    head.append(
        f": {kind.calls} calls, {decimal(kind.bytes)}, mean {kind.mean_ms:.3f} ms, max "
        f"{kind.max_ms:.3f} ms",
        "not bold",
    )
    return head.append(f"\n    {kind.started_by}", "not bold dim")


def lateness_table(late: list[Lateness]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    for name in ("rank", "came last", "behind the first: median", "max"):
        table.add_column(name, justify="right")
    for one in late:
        share = f"{one.last} of {one.of}"
        table.add_row(str(one.rank), share, f"{one.median_ms:.3f} ms", f"{one.max_ms:.3f} ms")
    return table
