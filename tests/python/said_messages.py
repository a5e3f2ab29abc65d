# SPDX-License-Identifier: Apache-2.0
"""What the sources can say: the texts of errors, warnings and notes, with NUMBER for what is put in.

In C++ every statement with words in it counts, in Python every text that is not documentation.
Alternatives within a C++ statement follow one another.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from launch import ROOT

NUMBER = "3"  # in the place of a rank, an address, a name
WORDS = 3  # a text with fewer is a name, or a part of a message that has words of its own
NOT_SHIPPED = ("csrc/transport/sim/", "csrc/collectives/proof/")
DESCRIBES = ("csrc/runtime/option_table.cc", "csrc/runtime/option_value.cc")  # options, for pages
SHOWS = ("port_counters.py",)  # what commands print as tables
COMMANDS = ("rocecoll/bench/", "rocecoll/cli/", "rocecoll/diagnosis/")  # what no job imports
BINDINGS = ("_module.cc", "_binding.cc", "_object.cc", "python/errors.cc", "exception_table.h")
_REFUSES = re.compile(r"\b(RaiseInvalid|Status|Refuse|Throw\w*|TORCH_CHECK\w*)\(")
_LOGS = re.compile(r"\bLog\(")
_COMMENT = re.compile(r'//[^\n]*|("(?:[^"\\\n]|\\.)*")', re.DOTALL)
_NAME_PREFIX = re.compile(r'\bkNamePrefix,\s*"')
_TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_WORD = re.compile(r"(?<!\S)[(\"]?[A-Za-z][a-z'-]+[,;:.)]*(?!\S)")
_LOGGED = ("debug", "info", "warning", "error", "log")


@dataclass(frozen=True)
class Said:
    file: str
    line: int
    by_itself: bool  # a line of the log, which is no part of anything else
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def all_said() -> list[Said]:
    found = []
    for path in sorted([*ROOT.glob("csrc/**/*.cc"), *ROOT.glob("csrc/**/*.h")]):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(NOT_SHIPPED + DESCRIBES):
            found += said_in_cpp(name, path.read_text())
    for path in [*modules_of_a_job(), ROOT / "_rocecoll_autoload.py"]:
        if path.name not in SHOWS:
            found += said_in_python(path)
    return [said for said in found if len(_WORD.findall(said.text)) >= WORDS]


def modules_of_a_job() -> list[Path]:
    """The package without the rooms of its command line."""
    package = sorted(ROOT.glob("rocecoll/**/*.py"))
    return [path for path in package if not path.relative_to(ROOT).as_posix().startswith(COMMANDS)]


def said_in_cpp(name: str, source: str) -> Iterator[Said]:
    source = _COMMENT.sub(lambda found: found[1] or "", source)
    source = _NAME_PREFIX.sub('"rocecoll: ', source)
    # Texts are blanked, so that what ends a statement is not found in them.
    blank = _TEXT.sub(lambda found: '"' + "_" * len(found[1]) + '"', source)
    start = 0
    for end in re.finditer(r"[;{}]", blank):
        statement = source[start : end.start()]
        line = source.count("\n", 0, start + len(statement) - len(statement.lstrip())) + 1
        start = end.end()
        if name.endswith(BINDINGS) and not _REFUSES.search(statement):
            continue  # what Python's help() shows
        if text := _joined(statement):
            yield Said(name, line, _LOGS.search(statement) is not None, text)


def _joined(statement: str) -> str:
    """Texts that follow each other are one; something is put in between others."""
    if re.match(r"\s*(#|static_assert|ROCECOLL_CHECK)", statement):
        return ""
    text, last = "", None
    for found in _TEXT.finditer(statement):
        apart = last is not None and statement[last : found.start()].strip()
        text += (NUMBER if apart else "") + found[1]
        last = found.end()
    return text.replace('\\"', '"').replace("\\n", " ")


def said_in_python(path: Path) -> Iterator[Said]:
    name = path.relative_to(ROOT).as_posix()
    tree = ast.parse(path.read_text())
    parts: set[ast.AST] = set()  # of other texts; and what documents
    logged: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr | ast.BinOp):
            parts.update(child for child in ast.walk(node) if child is not node)
        elif isinstance(node, ast.Expr):
            parts.add(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            logged.update(node.args if node.func.attr in _LOGGED else ())
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp) or node in parts:
            continue
        if text := _text_of(node):
            yield Said(name, node.lineno, node in logged, text)


def _text_of(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return re.sub("%[sdr]", NUMBER, node.value) if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        parts = (part if isinstance(part, ast.Constant) else None for part in node.values)
        return "".join(str(part.value) if part else NUMBER for part in parts)
    if isinstance(node, ast.BinOp):
        return (_text_of(node.left) or NUMBER) + (_text_of(node.right) or NUMBER)
    return ""
