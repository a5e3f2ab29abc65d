# SPDX-License-Identifier: Apache-2.0
"""Finds the modules of a kernel package and the order in which they can be loaded."""

from __future__ import annotations

import lzma
from collections.abc import Callable, Iterable
from pathlib import Path

from softroce_bed.bed import BedError

SUFFIXES = (".ko", ".ko.xz")


def module_name(file_name: str) -> str:
    """As in /proc/modules: file names have either of - and _."""
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        file_name = file_name.removesuffix(suffix)
    return file_name.replace("-", "_")


def module_files(directory: Path) -> dict[str, Path]:
    """By module name, all those under lib/modules/VERSION."""
    return {
        module_name(path.name): path
        for path in directory.rglob("*.ko*")
        if path.name.endswith(SUFFIXES)
    }


def builtin_modules(directory: Path) -> set[str]:
    lines = (directory / "modules.builtin").read_text().splitlines()
    return {module_name(line.rpartition("/")[2]) for line in lines}


def module_content(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if path.name.endswith(".xz") else data


def dependencies(content: bytes) -> list[str]:
    """What the module's .modinfo section says; strings there end with a zero byte."""
    _, found, rest = content.partition(b"\0depends=")
    names = rest.partition(b"\0")[0].decode() if found else ""
    return [module_name(name) for name in names.split(",") if name]


def load_order(
    wanted: Iterable[str], builtin: set[str], content: Callable[[str], bytes]
) -> dict[str, bytes]:
    """The modules with what they depend on, every one after what it needs; and their contents.

    `content` is asked for every module that is not built in and raises KeyError if there is none.
    """
    order: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in order or name in builtin:
            return
        try:
            data = content(name)
        except KeyError:
            raise BedError(f"the kernel package has no module {name}") from None
        for dependency in dependencies(data):
            add(dependency)
        order[name] = data

    for name in wanted:
        add(name)
    return order
