# SPDX-License-Identifier: Apache-2.0
"""Builds the small C++ programs of this directory, most of them into libraries, where they have changed."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from benchmarks.commands import run

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "bench"
LIBRARY = ["-shared", "-fPIC"]


def library(name: str) -> Path:
    return BUILD / f"lib{name}.so"


def build(name: str) -> Path:
    """Returns library(name), made of `name`.cc beside this file."""
    return compiled(name, library(name), LIBRARY)


def build_program(name: str) -> Path:
    """The same as a program of its own."""
    return compiled(name, BUILD / name, [])


def is_current(made: Path, listed: Path) -> bool:
    """Whether it is newer than its source and the headers that the compiler has listed."""
    if not (made.exists() and listed.exists()):
        return False
    names = shlex.split(listed.read_text().replace("\\\n", " ").partition(":")[2])
    sources = [Path(name) for name in names]
    written = made.stat().st_mtime
    return all(one.exists() and one.stat().st_mtime < written for one in sources)


def compiled(name: str, made: Path, kind: list[str]) -> Path:
    listed = made.with_suffix(".d")
    if is_current(made, listed):
        return made
    BUILD.mkdir(parents=True, exist_ok=True)
    source = Path(__file__).with_name(f"{name}.cc")
    # Other processes may be using the existing ones.
    new, new_listed = (path.with_suffix(f".{os.getpid()}{path.suffix}") for path in (made, listed))
    options = ["-std=c++20", "-O3", "-march=native", "-pthread", f"-I{ROOT / 'csrc'}", *kind]
    options += ["-MMD", "-MF", str(new_listed)]
    run(os.environ.get("CXX", "c++"), *options, str(source), "-o", str(new))
    new_listed.replace(listed)
    return new.replace(made)
