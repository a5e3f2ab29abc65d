# SPDX-License-Identifier: Apache-2.0
"""The console output of a guest's kernel, and whether it reports errors."""

from __future__ import annotations

import re

MAX_BYTES = 256 * 1024
SHOWN_LINES = 80

COMPLAINT = re.compile(
    r"BUG:|kernel BUG|WARNING:|Oops|Kernel panic|general protection|refcount_t:|"
    r"blocked for more than|stall(s|ed)? on|list_(add|del) corruption|"
    r"out of memory on the host"
)


class Console:
    """Keeps the beginning; a kernel that says more than that has said enough."""

    def __init__(self) -> None:
        self.text = bytearray()

    def feed(self, data: bytes) -> None:
        self.text += data[: max(0, MAX_BYTES - len(self.text))]

    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.text.decode(errors="replace").splitlines()]

    def complaint(self) -> str:
        """The first complaint and what follows it, or ""."""
        lines = self.lines()
        for number, line in enumerate(lines):
            if COMPLAINT.search(line):
                return "\n".join(lines[number : number + SHOWN_LINES])
        return ""

    def tail(self) -> str:
        return "\n".join(self.lines()[-SHOWN_LINES:])
