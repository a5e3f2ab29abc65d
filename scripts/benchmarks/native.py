# SPDX-License-Identifier: Apache-2.0
"""Builds the small C++ programs of this directory into libraries, where they have changed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

BUILD = Path(__file__).resolve().parents[2] / "build" / "bench"


class NativeError(Exception):
    """The program cannot be built here."""


def library(name: str) -> Path:
    return BUILD / f"lib{name}.so"


def build(name: str) -> Path:
    """Returns library(name), made of `name`.cc beside this file."""
    source, made = Path(__file__).with_name(f"{name}.cc"), library(name)
    if made.exists() and made.stat().st_mtime > source.stat().st_mtime:
        return made
    BUILD.mkdir(parents=True, exist_ok=True)
    new = made.with_suffix(f".{os.getpid()}")  # somebody may be using the one that is there
    options = ["-std=c++20", "-O3", "-march=native", "-pthread", "-shared", "-fPIC"]
    command = [os.environ.get("CXX", "c++"), *options, str(source), "-o", str(new)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise NativeError(f"{command[0]} is not installed") from error
    if done.returncode != 0:
        raise NativeError(f"{' '.join(command)}:\n{done.stderr}")
    return new.replace(made)
