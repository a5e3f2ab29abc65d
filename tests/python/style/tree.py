# SPDX-License-Identifier: Apache-2.0
"""The sources that the rules look at, as text by path; a test plants small trees of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

SOURCE_DIRECTORIES = ("csrc", "rocecoll", "scripts", "tests", "examples", ".ci")
SOURCE_SUFFIXES = (".h", ".cc", ".py", ".sh")

CPP_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def blank(match: re.Match[str]) -> str:
    """Comments and literals become spaces, a literal keeps its quotes: positions do not move."""
    text = match.group()
    inner = re.sub(r"[^\n]", " ", text)
    return inner if text.startswith("/") else text[0] + inner[1:-1] + text[-1]


def keep_digit_separators(text: str) -> str:
    return re.sub(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])", " ", text)


class Tree:
    """Paths are relative to the root of the repository, with forward slashes."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = {path: text for path, text in files.items() if not path.endswith(".md")}
        self.documents = {path: text for path, text in files.items() if path.endswith(".md")}

    @classmethod
    def load(cls, root: Path) -> Tree:
        files = {}
        for directory in SOURCE_DIRECTORIES:
            for path in sorted((root / directory).rglob("*")):
                hidden = "__pycache__" in path.parts or not path.is_file()
                if hidden or not is_text_source(path):
                    continue
                files[path.relative_to(root).as_posix()] = path.read_text()
        for path in [*root.glob("*"), *root.glob("docs/*.md")]:
            if path.name == "pyproject.toml" or path.suffix in (".py", ".md"):
                files[path.relative_to(root).as_posix()] = path.read_text()
        return cls(files)

    def under(self, *prefixes: str, suffixes: tuple[str, ...] = SOURCE_SUFFIXES) -> Iterator[str]:
        for path in sorted(self.files):
            if path.startswith(prefixes) and path.endswith(suffixes):
                yield path

    @cached_property
    def code(self) -> dict[str, str]:
        """C++ without comments and literals."""
        return {
            path: CPP_TOKEN.sub(blank, keep_digit_separators(self.files[path]))
            for path in self.under("csrc/", "tests/cpp/", suffixes=(".h", ".cc"))
        }

    def includes(self, path: str) -> list[tuple[int, bool, str]]:
        """(line, quoted, name) of every #include."""
        text = self.files[path]
        return [
            (line_of(text, match.start(1)), match[1] == '"', match[2])
            for match in INCLUDE.finditer(text)
        ]

    def find(self, pattern: str, paths: Iterator[str]) -> Iterator[tuple[str, str]]:
        """(place, matched text) of a pattern in C++ code."""
        for path in paths:
            for match in re.finditer(pattern, self.code[path], re.MULTILINE):
                yield f"{path}:{line_of(self.code[path], match.end())}", match.group().split()[-1]


def is_text_source(path: Path) -> bool:
    if path.suffix in SOURCE_SUFFIXES or path.name == "CMakeLists.txt":
        return True
    return path.suffix == "" and path.read_bytes()[:2] == b"#!"


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
