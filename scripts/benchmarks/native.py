# SPDX-License-Identifier: Apache-2.0
"""Builds the small C++ programs of this directory, most of them into libraries, where they have changed."""

from __future__ import annotations

import os
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


def compiled(name: str, made: Path, kind: list[str]) -> Path:
    source = Path(__file__).with_name(f"{name}.cc")
    if made.exists() and made.stat().st_mtime > source.stat().st_mtime:
        return made
    BUILD.mkdir(parents=True, exist_ok=True)
    new = made.with_suffix(f".{os.getpid()}")  # somebody may be using the one that is there
    options = ["-std=c++20", "-O3", "-march=native", "-pthread", f"-I{ROOT / 'csrc'}", *kind]
    run(os.environ.get("CXX", "c++"), *options, str(source), "-o", str(new))
    return new.replace(made)
