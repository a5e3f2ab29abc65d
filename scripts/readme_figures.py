# SPDX-License-Identifier: Apache-2.0
"""Writes README.md's table of times from docs/performance.md, which scripts/bench makes."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "performance.md"

OPERATION = "all_reduce"
PEERS = {"rocecoll": ["rocecoll"], "gloo": ["gloo"], "Open MPI": ["mpi", "mpi-shm"]}
PEERS["bare UDP sockets"] = ["raw-udp"]
PLACES = {
    "2 ranks on one host": "2 ranks on one host",
    "the same, over UDP": "2 ranks on one host, over UDP",
    "2 hosts": "2 hosts, veth",
}
SIZES = ("16 B", "16 KiB", "512 KiB", "16 MiB")
RULE = "| --- | ---: | ---: | ---: | ---: | ---: |"


def times_us(section: str) -> dict[tuple[str, str], str]:
    """By size and peer, as the page has them."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines()]
    columns = next(line for line in lines if line and line[0] == "operation")
    rows = [dict(zip(columns, line, strict=True)) for line in lines if line[:1] == [OPERATION]]
    return {(row["size"], row["peer"]): row["p50 us"] for row in rows}


def table() -> list[str]:
    parts = re.split(r"^## (.+)\n", PAGE.read_text(), flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    lines = [f"| where | size | {' | '.join(PEERS)} |", RULE]
    for place, title in PLACES.items():
        times = times_us(sections[title])
        for size in SIZES:
            cells = [
                next((times[size, name] for name in names if (size, name) in times), "")
                for names in PEERS.values()
            ]
            lines.append(f"| {place} | {size} | {' | '.join(cells)} |")
    return lines


def readme() -> str:
    lines = README.read_text().split("\n")
    rule = lines.index(RULE)
    return "\n".join(lines[: rule - 1] + table() + lines[lines.index("", rule) :])


if __name__ == "__main__":
    README.write_text(readme())
