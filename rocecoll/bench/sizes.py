# SPDX-License-Identifier: Apache-2.0
"""Sizes in bytes, as people write them and as nccl-tests steps through them."""

from __future__ import annotations

import re

KIB, MIB, GIB = 1024, 1024**2, 1024**3
UNITS = {"": 1, "K": KIB, "M": MIB, "G": GIB}
TEXT = re.compile(r"(\d+)([KMG]?)(?:i?B)?", re.IGNORECASE)


def parse(text: str) -> int:
    """8, 64K, 16M, 1G; a B or iB after it changes nothing."""
    match = TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no size: a number, and K, M or G behind it")
    return int(match[1]) * UNITS[match[2].upper()]


def steps(least: int, most: int, factor: int) -> list[int]:
    """`least`, each `factor` times the one before, up to `most`."""
    if not 0 < least <= most or factor < 2:
        raise ValueError(f"no sizes from {least} to {most} in steps of factor {factor}")
    found = []
    while least <= most:
        found.append(least)
        least *= factor
    return found


def text(size_bytes: int) -> str:
    for unit, factor in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size_bytes % factor == 0 and size_bytes >= factor:
            return f"{size_bytes // factor} {unit}"
    return f"{size_bytes} B"
