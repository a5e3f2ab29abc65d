# SPDX-License-Identifier: Apache-2.0
"""rocecoll status: what the running ranks of this host are doing, and who waits for whom."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rocecoll.cli import output
from rocecoll.diagnosis.job_status import Group, Member, Process, ask_all, groups_of, verdicts


def status(
    json: output.Json = False,
    watch: Annotated[
        float | None,
        typer.Option("--watch", min=0.1, help="Look again every so many seconds, until Ctrl-C."),
    ] = None,
) -> None:
    """Shows what the ranks on this host are doing: from another terminal, while the job runs.

    Per group and rank: how many collectives it has called, what it runs, for how long, and for whom
    it waits; then which rank keeps the others. Seen are your own processes (root: all) in this
    network namespace. The exit status is 1 where a rank is stuck, failed or does not answer.

    Example: rocecoll status --watch 2
    """
    console = output.console()
    if watch is not None and not json:
        follow(console, watch)
    processes = ask_all()
    if json:
        told = [asdict(process) for process in processes]
        output.print_json({"processes": told, "problems": problems(processes)})
    else:
        console.print(picture(processes))
    output.exit_with(bool(problems(processes)))


def follow(console: Console, interval_s: float) -> None:
    """Until Ctrl-C, which ends the program as typer ends it."""
    with Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(picture(ask_all()), refresh=True)
            time.sleep(interval_s)


def problems(processes: list[Process]) -> list[str]:
    silent = [
        f"process {process.pid} does not answer: it is stopped, or very busy"
        for process in processes
        if process.answer is None
    ]
    return silent + [
        f"group {group.name!r}: {line}"
        for group in groups_of(processes)
        for line in verdicts(group)
    ]


def picture(processes: list[Process]) -> Table:
    """Everything, one below the other."""
    whole = Table.grid()
    groups = groups_of(processes)
    if not processes:
        whole.add_row("no process of rocecoll runs here (that you may ask)")
    for group in groups:
        whole.add_row(title(group))
        whole.add_row(members(group))
    for line in problems(processes):
        whole.add_row(Text(line, "red"))
    return whole


def title(group: Group) -> Text:
    here = len(group.members)
    where = "" if here == group.ranks else f", {here} of them here"
    return Text(f"group {group.name!r}, {group.ranks} ranks{where}", "bold")


def members(group: Group) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    for name in ("rank", "process", "called"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("runs")
    table.add_column("for", justify="right", no_wrap=True)
    table.add_column("waits for")
    for member in group.members:
        table.add_row(*row(member))
    return table


def row(member: Member) -> list[str]:
    state = member.state
    if state["failure"]:
        runs, since = "failed", ""
    elif state["running"]:
        runs, since = state["running"], f"{state['running_for_s']:.1f} s"
    else:
        runs, since = (f"- (last {state['last']})" if state["last"] else "-"), ""
    waits = " ".join(map(str, state["waits_for"]))
    return [str(member.rank), str(member.pid), str(member.called), runs, since, waits]
