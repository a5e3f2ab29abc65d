# SPDX-License-Identifier: Apache-2.0
"""rocecoll trace: what the traces of the ranks say together."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rocecoll.cli import output, timeline_view
from rocecoll.diagnosis.traces import trace_files
from rocecoll.diagnosis.traces.delays import Lateness, lateness
from rocecoll.diagnosis.traces.timeline_picture import write_picture
from rocecoll.diagnosis.traces.trace_files import Kind, Trace

MOST_S = 1e9  # decades; an axis cannot end at infinity


def trace(
    files: Annotated[list[Path], typer.Argument(help="Of one job, one of each rank.")],
    json: output.Json = False,
    merge: Annotated[
        Path | None, typer.Option(help="Write all ranks into one file for Perfetto.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw a timeline of all ranks into this file (SVG).")
    ] = None,
    timeline: Annotated[bool, typer.Option(help="Draw it on the terminal, too.")] = False,
    from_s: Annotated[
        float | None,
        typer.Option(min=0, max=MOST_S, help="Only calls from here on: since the first one."),
    ] = None,
    to_s: Annotated[
        float | None, typer.Option(min=0, max=MOST_S, help="Only calls until then.")
    ] = None,
) -> None:
    """Says what took how long, and which rank came last.

    The files are those of ROCECOLL_TRACE=trace.json or rocecoll.trace(), by which they are told
    apart from other files. Ranks of several hosts are compared by their own clocks.

    Example: rocecoll trace trace.*.json --picture trace.svg --from-s 1.5 --to-s 1.8
    """
    if to_s is not None and to_s <= (from_s or 0.0):
        raise typer.BadParameter(f"--to-s {to_s:g} is not after --from-s {from_s or 0.0:g}")
    try:
        for path in filter(None, (merge, picture)):
            trace_files.check_output(path)
        whole = trace_files.read_all(files)
        window = trace_files.choose_window(whole, from_s, to_s)
        read = trace_files.cut(whole, window)
        if merge is not None:
            trace_files.write_merged(read, merge)
        if picture is not None:
            write_picture(read, window, picture)
    except trace_files.TraceError as error:
        typer.echo(f"rocecoll trace: {error}", err=True)
        raise typer.Exit(output.Status.PROBLEMS) from None
    kinds, late = trace_files.kinds(read), lateness(trace_files.meetings(read))
    if json:
        found = {
            "kinds": [asdict(kind) for kind in kinds],
            "lateness": [asdict(one) for one in late],
        }
        output.print_json(found)
        return
    console = output.console()
    show(read, kinds, late, console)
    if timeline:
        timeline_view.show(read, window, console)


def show(read: list[Trace], kinds: list[Kind], late: list[Lateness], console: Console) -> None:
    calls = sum(kind.calls for kind in kinds)
    ranks = f"{len(read)} rank{'s' if len(read) > 1 else ''}"
    console.print(Text(f"{calls} calls of {ranks}", "bold"))
    if dropped := sum(one.dropped_calls for one in read):
        console.print(f"and {dropped} before them that the traces had no room for")
    for kind in kinds:
        for line in kind_lines(kind):
            console.print(line)
    if late:
        console.print(lateness_table(late))


def kind_lines(kind: Kind) -> tuple[Text, Padding]:
    """Puts the place in the program, which may be long, on lines of its own."""
    head = Text(f"{kind.operation} on {kind.group}", "bold")
    head.append(
        f": {kind.calls} calls, {decimal(kind.bytes)}, mean {kind.mean_ms:.3f} ms, max "
        f"{kind.max_ms:.3f} ms",
        "not bold",
    )
    return head, Padding(Text(kind.started_by, "dim"), (0, 0, 0, 4), expand=False)


def lateness_table(late: list[Lateness]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    for name in ("rank", "came last", "behind the first: median", "max"):
        table.add_column(name, justify="right")
    for one in late:
        share = f"{one.last} of {one.of}"
        table.add_row(str(one.rank), share, f"{one.median_ms:.3f} ms", f"{one.max_ms:.3f} ms")
    return table
