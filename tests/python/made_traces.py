# SPDX-License-Identifier: Apache-2.0
"""Traces of ranks that never ran, and rocecoll trace upon them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from rocecoll.cli.app import app


def call(
    sequence: int, begin_ms: float, length_ms: float, place: str = "train.py:7", **arguments: Any
) -> dict[str, Any]:
    said = {"group": "0", "description": "default_pg", "sequence": sequence, "bytes": 4000}
    return {
        "ph": "X",
        "cat": "collective",
        "name": "all_reduce",
        "pid": 0,
        "tid": 0,
        "ts": begin_ms * 1e3,
        "dur": length_ms * 1e3,
        "args": said | {"initiator": place} | arguments,
    }


def write(directory: Path, rank: int, calls: Sequence[dict[str, Any]], dropped: int = 0) -> str:
    path = directory / f"trace.{rank}.json"
    name = {"ph": "M", "pid": rank, "tid": 0, "name": "process_name", "args": {"name": "rank"}}
    other = {"rank": rank, "dropped_calls": dropped}
    path.write_text(json.dumps({"traceEvents": [name, *calls], "otherData": other}))
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["trace", *arguments], env={"COLUMNS": "80"})
