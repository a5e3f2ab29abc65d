# SPDX-License-Identifier: Apache-2.0
"""What a run found, as Markdown for docs/gpu.md and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gpu_parts.runner import FAILED, NOT_RUN, PASSED, Result
from gpu_parts.timings import FIGURES

MOST_WORDS = 3  # of the failures of a part, in the table
WIDEST = 300


def cell(text: str) -> str:
    text = " ".join(text.split()).replace("|", "\\|")
    return text if len(text) <= WIDEST else f"{text[:WIDEST]} ..."


def seen(result: Result) -> str:
    """Failures or the reason first, then what rank 0 has told, without its figures."""
    words = [cell(one) for one in result.words[:MOST_WORDS]]
    if len(result.words) > MOST_WORDS:
        words.append(f"and {len(result.words) - MOST_WORDS} more")
    told = [f"{name}: {value}" for name, value in result.told.items() if name != FIGURES]
    return "; ".join([*words, *(cell(one) for one in told)])


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], right: int = 0) -> str:
    """The last `right` columns are figures."""
    marks = ["---"] * (len(columns) - right) + ["---:"] * right
    lines = [f"| {' | '.join(one)} |" for one in (columns, marks, *rows)]
    return "\n".join(lines) + "\n"


def size_text(size: int) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def figures(result: Result) -> str:
    rows: list[dict[str, Any]] = result.told.get(FIGURES, [])
    if not rows:
        return ""
    peers = [name for name in rows[0] if name != "bytes"]
    lines = [[size_text(row["bytes"]), *(f"{row[name]:g}" for name in peers)] for row in rows]
    columns = ["all_reduce", *(f"{name}, us" for name in peers)]
    return f"\n{table(columns, lines, right=len(peers))}"


def summary(results: Sequence[Result]) -> str:
    count = {
        state: sum(one.state == state for one in results) for state in (PASSED, FAILED, NOT_RUN)
    }
    return ", ".join(f"{number} {state}" for state, number in count.items())


def markdown(about: dict[str, Any], results: Sequence[Result]) -> str:
    facts = "; ".join(f"{name} {cell(str(value))}" for name, value in about.items())
    rows = [
        [one.part.name, one.part.shows, one.state, f"{one.seconds:.0f} s", seen(one)]
        for one in results
    ]
    text = f"{facts}\n\n{table(['part', 'shows', 'result', 'took', 'seen'], rows)}"
    text += "".join(figures(one) for one in results)
    return f"{text}\n{summary(results)}\n"


def write(folder: Path, about: dict[str, Any], results: Sequence[Result]) -> str:
    """report.md, which is returned, report.json and log.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    text = markdown(about, results)
    (folder / "report.md").write_text(text)
    parts = [
        {
            "part": one.part.name,
            "state": one.state,
            "seconds": round(one.seconds, 2),
            "words": one.words,
            "told": one.told,
        }
        for one in results
    ]
    (folder / "report.json").write_text(json.dumps({"about": about, "parts": parts}, indent=1))
    logs = "".join(f"==== {one.part.name}\n{one.log}\n" for one in results if one.log)
    (folder / "log.txt").write_text(logs)
    return text
