# SPDX-License-Identifier: Apache-2.0
"""The result of one check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Level(str, Enum):
    """A note is good to know, a warning costs time or robustness, a problem stops a job."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """`cure` is the command that fixes it, to be copied as it is."""

    subject: str
    level: Level
    text: str
    cure: str = ""


def has_problems(findings: Sequence[Finding]) -> bool:
    return any(finding.level is Level.PROBLEM for finding in findings)


def in_units(size_bytes: int) -> str:
    for factor, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.4g} {unit}"
    return f"{size_bytes} bytes"
