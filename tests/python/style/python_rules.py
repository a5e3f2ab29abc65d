# SPDX-License-Identifier: Apache-2.0
"""Where the package reads its environment, what its rooms import, and that nothing lies about unused."""

from __future__ import annotations

import ast
import posixpath
import re

from style.tree import Tree

OPTIONS = "rocecoll/options.py"
ENVIRONMENT = "rocecoll/environment.py"


def environment_has_its_readers(tree: Tree) -> list[str]:
    """One of the options' variables, and one of all others."""
    found = []
    for path in tree.under("rocecoll/", suffixes=(".py",)):
        if path in (OPTIONS, ENVIRONMENT):
            continue
        for node in ast.walk(ast.parse(tree.files[path], path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else []
            attribute = node.attr if isinstance(node, ast.Attribute) else None
            if attribute in ("environ", "getenv", "putenv") or {"environ", "getenv"} & set(names):
                found.append(
                    f"{path}:{node.lineno}: only {OPTIONS} and {ENVIRONMENT} read variables"
                )
    return found


def module_name(path: str) -> str:
    path = path.removeprefix("scripts/").removeprefix("tests/python/")  # where those find theirs
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported_modules(path: str, text: str) -> set[str]:
    """Dotted names that a file imports, the members of `from` imports among them."""
    package = path.split("/")[:-1]
    names = set()
    for node in ast.walk(ast.parse(text, path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = base + ([node.module] if node.module else [])
            names.add(".".join(base))
            names |= {".".join([*base, alias.name]) for alias in node.names}
    return names


def used_modules(tree: Tree) -> set[str]:
    used = set()
    for path in tree.under("", suffixes=(".py",)):
        used |= imported_modules(path, tree.files[path]) - {module_name(path)}
    return used


# What parts of the package may not import: a program that trains needs no terminal, and what looks at
# a machine does not wait for torch. The first prefix of a path is its part.
MAY_NOT_IMPORT = {
    "rocecoll/cli/": set(),
    "rocecoll/__main__.py": set(),
    "rocecoll/bench/__main__.py": set(),
    "rocecoll/bench/": {"typer", "rocecoll.cli", "rocecoll.diagnosis"},
    "rocecoll/diagnosis/": {"torch", "typer", "rich", "rocecoll.cli"},
    "rocecoll/host/": {"torch", "typer", "rich"},
    "rocecoll/": {"typer", "rich", "rocecoll.cli", "rocecoll.diagnosis", "rocecoll.bench"},
}
# All that the modules of a room may import of the package, besides each other. A package's name stands
# for what lies in it, and `_core` and `_c10d`, which are no Python, may be imported anywhere.
ROOMS = {
    "rocecoll.host": set(),
    "rocecoll.rendezvous": {"rocecoll.host", "rocecoll.notes", "rocecoll.options"},
    "rocecoll.logs": {"rocecoll.host", "rocecoll.notes", "rocecoll.options"},
    "rocecoll.bench": {
        "rocecoll.environment",
        "rocecoll.launchers",
        "rocecoll.options",
        "rocecoll.rendezvous",
    },
    "rocecoll.diagnosis.machine": {
        "rocecoll.diagnosis.finding",
        "rocecoll.environment",
        "rocecoll.host",
        "rocecoll.options",
        "rocecoll.runtime",
    },
    "rocecoll.diagnosis.pairs": {
        "rocecoll.diagnosis.finding",
        "rocecoll.diagnosis.machine",
        "rocecoll.environment",
        "rocecoll.options",
        "rocecoll.rendezvous",
    },
    "rocecoll.diagnosis.jobs": {"rocecoll.rendezvous", "rocecoll.status"},
    "rocecoll.diagnosis.traces": set(),
    "rocecoll.diagnosis": {"rocecoll.options"},
}
ON_TOP = ("rocecoll/cli/", "rocecoll/bench/__main__.py")  # these may import any room


def command_line_is_on_top(tree: Tree) -> list[str]:
    found = []
    for path in tree.under("rocecoll/", suffixes=(".py",)):
        room = next(room for room in MAY_NOT_IMPORT if path.startswith(room))
        for banned in sorted(MAY_NOT_IMPORT[room]):
            names = imported_modules(path, tree.files[path])
            if any(name == banned or name.startswith(f"{banned}.") for name in names):
                found.append(f"{path}:1: imports {banned}")
    return found


def rooms_import_what_is_below(tree: Tree) -> list[str]:
    found = []
    for path in tree.under("rocecoll/", suffixes=(".py",)):
        package = path.rpartition("/")[0].replace("/", ".")
        if package == "rocecoll" or path.startswith(ON_TOP):
            continue
        if package not in ROOMS:
            found.append(f"{path}:1: is in no room; add its directory to ROOMS")
            continue
        for name in sorted(imported_modules(path, tree.files[path])):
            module = name.replace(".", "/")
            if not {f"{module}.py", f"{module}/__init__.py"} & tree.files.keys():
                continue  # of others, or a name in a module
            above = f"{package}.".startswith(f"{name}.")  # itself, or a package that it is part of
            allowed = {package, *ROOMS[package]}
            if not above and not any(f"{name}.".startswith(f"{one}.") for one in allowed):
                below = ", ".join(sorted(ROOMS[package])) or "nothing else of the package"
                found.append(f"{path}:1: imports {name}; {package} may import {below}")
    return found


def rooms_are_packages(tree: Tree) -> list[str]:
    """A wheel has the directories with an `__init__.py`; a source tree works without."""
    rooms = {path.rpartition("/")[0] for path in tree.under("rocecoll/", suffixes=(".py",))}
    return [
        f"{room}:1: has no __init__.py, so that a wheel would not have it"
        for room in sorted(rooms)
        if f"{room}/__init__.py" not in tree.files
    ]


def modules_are_used(tree: Tree) -> list[str]:
    """Imported, run as a program (`__main__`), or named in full: by another module, which loads it
    when it is needed, or as an entry point in pyproject.toml."""
    used = used_modules(tree)
    modules = {path: tree.files[path] for path in tree.under("rocecoll/", suffixes=(".py",))}
    entry_points = tree.files.get("pyproject.toml", "")
    found = []
    for path in tree.under("rocecoll/", suffixes=(".py",)):
        name = module_name(path)
        program = path.endswith(("__init__.py", "__main__.py"))
        named = f'"{name}:' in entry_points or any(
            f'"{name}"' in text for other, text in modules.items() if other != path
        )
        if not (program or named or name in used or f'"{name}"' in entry_points):
            found.append(f"{path}:1: nothing imports it; use it or remove it")
    return found


def helpers_are_used(tree: Tree) -> list[str]:
    """Beside the package: imported, or named by another file or by a document."""
    used = used_modules(tree)
    found = []
    for path in tree.under("scripts/", "examples/", "tests/python/", suffixes=("",)):
        name = posixpath.basename(path)
        # pytest finds these itself.
        if re.fullmatch(r"test_\w+\.py|conftest\.py|__init__\.py", name) and (
            path.startswith("tests/python/")
        ):
            continue
        # The name of a program without a suffix is an ordinary word, so only its whole path counts.
        word = name if "." in name else path
        called = re.compile(rf"(?<![\w.-]){re.escape(word)}(?![\w-]|\.\w)")
        named = any(
            word in text and called.search(text)  # the first is much faster
            for other, text in (tree.files | tree.documents).items()
            if other != path
        )
        if not named and module_name(path) not in used:
            found.append(f"{path}:1: nothing imports or names it; use it or remove it")
    return found
