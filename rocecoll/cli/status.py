# SPDX-License-Identifier: Apache-2.0
"""rocecoll status: what the running ranks of this host are doing, and who waits for whom."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from rocecoll.cli import output
from rocecoll.diagnosis.jobs.processes import (
    Forming,
    Group,
    Member,
    Process,
    UnlistedError,
    ask_all,
    forming_of,
    groups_of,
    verdicts,
)
from rocecoll.host.port_counters import nic_counters, signs, spell
from rocecoll.rendezvous.records import spans

NicCounters = dict[str, dict[str, int]]
Peers = Annotated[
    bool,
    typer.Option("--peers", help="Also how each rank reaches the others, and what NICs count."),
]


def status(
    json: output.Json = False,
    peers: Peers = False,
    watch: Annotated[
        float | None,
        typer.Option(
            "--watch",
            min=0.1,
            max=output.DAY_S,
            help="Look again every so many seconds, until Ctrl-C.",
        ),
    ] = None,
) -> None:
    """Shows what the ranks on this host are doing now.

    From another terminal, while the job runs.
    Per group and rank: how many collectives it has called, what it runs, for how long, and for whom
    it waits; then which rank keeps the others. Seen are your own processes (root: all) in this
    network namespace. The exit status is 1 where a rank is stuck, failed or does not answer.

    Example: rocecoll status --watch 2
    """
    if watch is not None and json:
        raise typer.BadParameter("--watch draws on a terminal: with --json, run the command again")
    console = output.console()
    try:
        if watch is not None:
            follow(console, watch, peers)
        processes = ask_all()
    except UnlistedError as error:
        typer.echo(f"rocecoll status: {error}", err=True)
        raise typer.Exit(output.Status.PROBLEMS) from None
    if json:
        told = [asdict(process) for process in processes]
        said = {"processes": told, "problems": problems(processes), "nics": nic_counters()}
        output.print_json(said)
    else:
        console.print(picture(processes, peers))
    output.exit_with(bool(problems(processes)))


def follow(console: Console, interval_s: float, peers: bool) -> None:
    """Until Ctrl-C, which ends the program as typer ends it."""
    from rich.live import Live  # which one look does not need

    first = nic_counters()
    with Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(picture(ask_all(), peers, first), refresh=True)
            time.sleep(interval_s)


def problems(processes: list[Process]) -> list[str]:
    silent = [
        f"process {process.pid} does not answer: it is stopped, or very busy"
        for process in processes
        if process.answer is None
    ]
    waiting = [
        f"group {one.state['name']!r}: {one.verdict}"
        for one in forming_of(processes)
        if one.verdict
    ]
    kept = [
        f"group {group.name!r}: {line}"
        for group in groups_of(processes)
        for line in verdicts(group)
    ]
    return silent + waiting + kept


def picture(processes: list[Process], peers: bool, first: NicCounters | None = None) -> Table:
    """All groups and NICs, one below the other. `first` has the NICs' counters at the first look."""
    whole = Table.grid()
    groups = groups_of(processes)
    if not processes:
        whole.add_row("no process of rocecoll runs here (that you may ask)")
    for group in groups:
        whole.add_row(title(group))
        whole.add_row(members(group))
        if peers:
            whole.add_row(ways(group))
    if waiting := forming_of(processes):
        whole.add_row(Text("groups that are being made", "bold"))
        whole.add_row(makers(waiting))
    for line in nic_lines(nic_counters(), first) if peers else []:
        whole.add_row(line)
    for problem in problems(processes):
        whole.add_row(Text(problem, "red"))
    return whole


def nic_lines(now: NicCounters, first: NicCounters | None) -> list[Text]:
    """What NICs have counted since their drivers were loaded, for all programs."""
    return [
        Text(f"{port}: {spell(sign, counted, None if first is None else first.get(port))}")
        for port, counters in now.items()
        for sign, counted in signs(counters).items()
    ]


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


def makers(waiting: list[Forming]) -> Table:
    """Groups that are being made: a line for each rank that has come."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    for name in ("rank", "process", "group", "ranks", "for", "waits for"):
        left = name in ("group", "waits for")
        table.add_column(name, justify="left" if left else "right", no_wrap=name != "waits for")
    for one in waiting:
        state = one.state
        numbers = (str(state["global_rank"]), str(one.pid), state["name"], str(state["ranks"]))
        table.add_row(*numbers, f"{state['for_s']:.1f} s", spans(state["waits_for"]))
    return table


def ways(group: Group) -> Table:
    """A line for each path to each rank needed so far; a star marks the path in use."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    for name in ("rank", "to", "by", "sent", "received", "again", "rtt", "window", "heard"):
        table.add_column(name, justify="left" if name == "by" else "right", no_wrap=True)
    for member in group.members:
        for way in member.peers:
            table.add_row(str(member.rank), *way_row(way))
    return table


def way_row(way: dict[str, Any]) -> list[str]:
    return [
        str(way["rank"]),
        way["path"] + ("*" if way["in_use"] else ""),
        decimal(way["bytes_sent"]),
        decimal(way["bytes_received"]),
        str(way["packets_retransmitted"]),
        "" if way["rtt_us"] is None else f"{way['rtt_us']:.0f} us",
        "" if way["congestion_window_bytes"] is None else decimal(way["congestion_window_bytes"]),
        "" if way["last_heard_s"] is None else f"{way['last_heard_s']:.1f} s",
    ]
