# SPDX-License-Identifier: Apache-2.0
"""What rank 0 reports while it measures, line by line, and the rows made of these lines.

A line is about one block, about wrong elements of a case, or about the paths that rocecoll used.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rocecoll.bench.results import Block, Row

Line = dict[str, Any]


class Writer:
    """Lines of JSON in a file."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("a")

    def write(self, line: Line) -> None:
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()


class Reader:
    """The lines of a file that grows."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self.file, self.rest = path.open(), ""

    def lines(self) -> list[Line]:
        *whole, self.rest = (self.rest + self.file.read()).split("\n")
        return [json.loads(line) for line in whole]


def block_of(line: Line) -> Block:
    """The block of a line. Its times become an array, as there may be millions of them."""
    block = Block(**line)
    block.times_us = array("d", block.times_us)
    return block


class Collector:
    """Fills the rows, one for each case of the plan."""

    def __init__(self, rows: Sequence[Row], block_done: Callable[[], None]) -> None:
        self.rows, self.block_done = rows, block_done
        self.ways: list[str] = []

    def take(self, line: Line) -> None:
        if "ways" in line:
            self.ways = line["ways"]
        elif "block" in line:
            row = self.rows[line["case"]]
            row.blocks.setdefault(line["peer"], []).append(block_of(line["block"]))
            self.block_done()
        else:
            self.rows[line["case"]].wrong = line["wrong"]
