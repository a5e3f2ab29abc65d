# SPDX-License-Identifier: Apache-2.0
"""Findings, a paragraph each, and how many there are of which kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rocecoll.diagnosis.finding import Finding, Level

STYLES = {Level.OK: "green", Level.NOTE: "cyan", Level.WARNING: "yellow", Level.PROBLEM: "red"}
WIDTH = max(map(len, Level)) + 2


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
