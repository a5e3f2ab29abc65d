# SPDX-License-Identifier: Apache-2.0
"""How long files and functions and how large classes may be, and what every file begins with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from style.tree import Tree, line_of

MAX_FILE_LINES = 450
MAX_FUNCTION_LINES = 80
MAX_CLASS_MEMBERS = 30
LICENSE = "SPDX-License-Identifier: Apache-2.0"
NO_FUNCTION = re.compile(
    r"^(if|else|for|while|switch|do|try|catch|return|case|default|namespace|extern|enum|union)\b"
)
TYPE = re.compile(r"\b(class|struct|enum|union)\b")
CLASS = re.compile(r"\b(?:class|struct)\s+(?:\[\[.*?\]\]\s*)?(\w+)[^;{}()=]*\{")
# What a declaration ends with, once all that stands in parentheses and braces is taken out.
MEMBER = re.compile(r"\b\w+_\s*(?:\[[^\]]*\]\s*)?(?:\{\}\s*|=.*)?$", re.DOTALL)


def license_lines(tree: Tree) -> list[str]:
    found = []
    for path, text in sorted(tree.files.items()):
        lines = text.splitlines()[:2]
        if lines and lines[0].startswith("#!"):
            lines = lines[1:]
        comment = "//" if path.endswith((".h", ".cc")) else "#"
        if path.endswith(".toml"):
            continue
        if not lines or lines[0] != f"{comment} {LICENSE}":
            found.append(f"{path}:1: begin with `{comment} {LICENSE}`")
    return found


def file_lengths(tree: Tree) -> list[str]:
    found = []
    for path, text in sorted(tree.files.items()):
        lines = text.count("\n")
        if lines > MAX_FILE_LINES:
            found.append(
                f"{path}:{MAX_FILE_LINES + 1}: has {lines} lines of at most {MAX_FILE_LINES};"
                " it holds more than one idea, split it"
            )
    return found


def cpp_functions(code: str) -> Iterator[tuple[int, int]]:
    """(first line, last line) of functions and lambdas with a body, from code without comments.

    The head of a brace is what stands between it and the statement or brace before. It is a
    function's if it has parameters and is neither a control statement, a type nor an initializer.
    """
    open_heads: list[int | None] = []
    start = 0
    parentheses = 0
    code = re.sub(
        r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m[0]), code, flags=re.M
    )
    for position, character in enumerate(code):
        if character == "(":
            parentheses += 1
        elif character == ")":
            parentheses -= 1
        elif character == "{":
            head = code[start:position]
            begins = start + len(head) - len(head.lstrip())
            open_heads.append(begins if is_function_head(head.strip()) else None)
            start = position + 1
        elif character == "}":
            begins = open_heads.pop() if open_heads else None
            if begins is not None:
                yield line_of(code, begins), line_of(code, position)
            start = position + 1
        elif character == ";" and parentheses == 0:
            start = position + 1


def is_function_head(head: str) -> bool:
    if re.search(r"\[[^\[\]]*\]\s*(\([^{}]*\)[^{}()]*)?$", head):
        return True  # a lambda
    head = re.sub(r"^((public|private|protected)\s*:\s*)+", "", head)
    while head.startswith("template"):
        head = without_template(head)
    if "(" not in head or NO_FUNCTION.match(head):
        return False
    before = head[: head.index("(")]
    return not TYPE.search(before) and ("=" not in before or "operator" in before)


def without_template(head: str) -> str:
    depth = 0
    for position, character in enumerate(head):
        depth += {"<": 1, ">": -1}.get(character, 0)
        if character == ">" and depth == 0:
            return head[position + 1 :].lstrip()
    return ""


def function_lengths(tree: Tree) -> list[str]:
    spans = [
        (path, first, last)
        for path, code in sorted(tree.code.items())
        for first, last in cpp_functions(code)
    ]
    for path in tree.under("", suffixes=(".py",)):
        for node in ast.walk(ast.parse(tree.files[path], path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                spans.append((path, node.lineno, node.end_lineno or node.lineno))
    return [
        f"{path}:{first}: a function of {last - first + 1} lines of at most {MAX_FUNCTION_LINES};"
        " name its parts"
        for path, first, last in spans
        if last - first + 1 > MAX_FUNCTION_LINES
    ]


def outline(code: str, start: int) -> str:
    """From `start`, which is behind a brace, to the brace that closes it, without what is nested."""
    shown, depth = [], 0
    for character in code[start:]:
        if character in ")}":
            depth -= 1
        if depth < 0:
            break
        if depth == 0:
            shown.append(character)
        if character in "({":
            depth += 1
    return "".join(shown)


def class_sizes(tree: Tree) -> list[str]:
    """Of a class that has more state than a reader can hold, parts are classes of their own."""
    found = []
    for path in tree.under("csrc/", suffixes=(".h",)):
        code = tree.code[path]
        for match in CLASS.finditer(code):
            declarations = outline(code, match.end()).split(";")
            members = sum(MEMBER.search(one.rstrip()) is not None for one in declarations)
            if members > MAX_CLASS_MEMBERS:
                found.append(
                    f"{path}:{line_of(code, match.start())}: {match[1]} has {members} members of at "
                    f"most {MAX_CLASS_MEMBERS}; give a part of them a class"
                )
    return found
