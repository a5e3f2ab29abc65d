# SPDX-License-Identifier: Apache-2.0
"""rocecoll doctor: whether this machine is fit, and how to fix it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rocecoll.cli import findings_view, output
from rocecoll.diagnosis.finding import has_problems
from rocecoll.diagnosis.machine.checkup import examine
from rocecoll.diagnosis.machine.option_values import usable_settings
from rocecoll.diagnosis.machine.report import compose


def doctor(
    json: output.Json = False,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a text for a bug report, too, without secrets."),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Try UDP and RoCE among hosts, which meet at this one."
        ),
    ] = None,
    ranks: Annotated[int, typer.Option(min=2, help="With --store: how many hosts.")] = 2,
    rank: Annotated[
        int | None, typer.Option(min=0, help="With --store: which of them this is; else any.")
    ] = None,
    wait_s: Annotated[
        float,
        typer.Option(min=1, max=output.DAY_S, help="With --store: how long for the others."),
    ] = 300.0,
) -> None:
    """Says whether this machine is fit, and how to mend it.

    A note is good to know, a warning costs time or robustness, a problem stops a job and makes
    the exit status 1. Nothing is changed.

    Example: rocecoll doctor --report report.txt

    On every one of three hosts: rocecoll doctor --store node1:29500 --ranks 3
    """
    settings = usable_settings()
    if store is not None:
        if report is not None:
            raise typer.BadParameter("--report tells of this host alone: leave --store out for it")
        if rank is not None and rank >= ranks:
            raise typer.BadParameter(
                f"--rank {rank} is none of {ranks}: accepted is 0 to {ranks - 1}"
            )
        from rocecoll.cli import pairs  # local checks need none of it

        pairs.run(pairs.Wish(store, ranks, rank, wait_s, json), settings)
    findings = examine(settings)
    if report is not None:
        write_report(report, compose(findings, settings))
    if json:
        output.print_json([asdict(finding) for finding in findings])
    else:
        findings_view.show(findings, output.console())
    output.exit_with(has_problems(findings))


def write_report(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise typer.BadParameter(f"cannot write {path}: {error.strerror}") from error
    typer.echo(f"{path} has the report; read it before you send it", err=True)
