# SPDX-License-Identifier: Apache-2.0
"""Causes and cures of messages, read from the pages that explain them.

They are written only in those pages. A source tree has the pages in docs, an installed package beside
this file: setup.py copies those that have such tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rocecoll.options import table, variable

HEADER = ("says", "because", "cure")
LONGEST_LINE = 1 << 16  # characters of a log that are looked at


@dataclass(frozen=True)
class Entry:
    """A row of a table. `says` has `...` in place of ranks, addresses and numbers."""

    page: str
    section: str
    says: tuple[str, ...]  # phrases, of which a row may have two
    because: str
    cure: str

    def explains(self, line: str) -> bool:
        return any(re.search(pattern(phrase), line) for phrase in self.says)


@dataclass(frozen=True)
class Explained:
    entry: Entry
    line: str  # the first that has the message
    lines: int


class PageError(Exception):
    """The installation lacks its pages."""


def pattern(phrase: str) -> str:
    parts = [part.strip() for part in phrase.split("...")]
    return ".*?".join(re.escape(part) for part in parts if part)


def directory() -> Path:
    here = Path(__file__).resolve().parent
    installed = here / "pages"
    return installed if installed.is_dir() else here.parents[1] / "docs"


def entries() -> list[Entry]:
    pages = sorted(directory().glob("*.md"))
    found = [row for page in pages for row in rows(page.name, page.read_text(encoding="utf-8"))]
    if not found:
        raise PageError(f"{directory()} has no page with messages; install rocecoll again")
    return found


def rows(page: str, text: str) -> Iterator[Entry]:
    """The rows of all tables whose columns are HEADER."""
    section, inside = "", False
    for line in text.splitlines():
        cells = tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
        if line.startswith("#"):
            section = line.lstrip("# ")
        if cells == HEADER:
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not set(cells[0]) <= {"-", ":"}:
            says, because, cure = cells
            phrases = tuple(re.findall(r"`([^`]+)`", says))
            yield Entry(page, section, phrases, plain(because), plain(cure))


def plain(markdown: str) -> str:
    """The text for a terminal: links become their names, options their variables."""
    text = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", markdown)
    for name in table():
        text = re.sub(rf"`{name.upper()}\b", f"`{variable(name)}", text)
    return text


def explain(log: Iterable[str]) -> list[Explained]:
    """What is known of the messages in `log`, in the order of their first appearance."""
    known = entries()
    first: dict[Entry, str] = {}
    count: dict[Entry, int] = {}
    for whole in log:
        line = whole[:LONGEST_LINE].strip()
        for entry in known:
            if entry.explains(line):
                first.setdefault(entry, line)
                count[entry] = count.get(entry, 0) + 1
    return [Explained(entry, line, count[entry]) for entry, line in first.items()]
