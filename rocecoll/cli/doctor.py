# SPDX-License-Identifier: Apache-2.0
"""rocecoll doctor: whether this machine is fit, and what mends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rocecoll.cli import output
from rocecoll.diagnosis.checkup import examine
from rocecoll.diagnosis.finding import Finding, Level
from rocecoll.diagnosis.option_values import usable_settings
from rocecoll.diagnosis.report import compose

STYLES = {Level.OK: "green", Level.NOTE: "cyan", Level.WARNING: "yellow", Level.PROBLEM: "red"}
WIDTH = max(map(len, Level)) + 2


def doctor(
    json: output.Json = False,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a text for a bug report, too, without secrets."),
    ] = None,
) -> None:
    """Looks whether this machine is fit for rocecoll, and says how to mend what is not.

    A note is good to know, a warning costs time or robustness, a problem stops a job and makes
    the exit status 1. Nothing is changed.

    Example: rocecoll doctor --report report.txt
    """
    settings = usable_settings()
    findings = examine(settings)
    if report is not None:
        write_report(report, compose(findings, settings))
    if json:
        output.print_json([asdict(finding) for finding in findings])
    else:
        show(findings, output.console())
    output.exit_with(any(finding.level is Level.PROBLEM for finding in findings))


def write_report(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise typer.BadParameter(f"cannot write {path}: {error.strerror}") from error
    typer.echo(f"{path} has the report; read it before you send it", err=True)


def show(findings: Sequence[Finding], console: Console) -> None:
    for finding in findings:
        line = Table.grid()
        line.add_column(width=WIDTH)
        line.add_column(overflow="fold")
        level = Text(finding.level.value, STYLES[finding.level])
        line.add_row(level, Text(finding.subject, "bold").append(f": {finding.text}", "not bold"))
        console.print(line)
        if finding.cure:  # on one line, to be copied
            console.print(f"{'':{WIDTH}}$ {finding.cure}", soft_wrap=True)
    console.print(Text(summary(findings), "bold"))


def summary(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.level for finding in findings)
    told = [
        f"{counts[level]} {level.value}{'s' if counts[level] > 1 else ''}"
        for level in (Level.PROBLEM, Level.WARNING, Level.NOTE)
        if counts[level]
    ]
    return ", ".join(told) or "all is well"
