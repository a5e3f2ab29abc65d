# SPDX-License-Identifier: Apache-2.0
"""Writes README.md's table and picture of times from docs/performance.md, which scripts/bench makes."""

from __future__ import annotations

import re
from pathlib import Path

from rocecoll.bench import plot, sizes

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "performance.svg"

OPERATION = "all_reduce"
PEERS = {"rocecoll": ["rocecoll"], "gloo": ["gloo"], "Open MPI": ["mpi", "mpi-shm"]}
PEERS["bare UDP sockets"] = ["raw-udp"]
PLACES = {
    "2 ranks on one host": "2 ranks on one host",
    "the same, over UDP": "2 ranks on one host, over UDP",
    "2 hosts": "2 hosts, veth",
}
DRAWN = "the same, over UDP"
SIZES = ("16 B", "16 KiB", "512 KiB", "16 MiB")
RULE = "| --- | ---: | ---: | ---: | ---: | ---: |"


def cells(section: str, column: str) -> dict[tuple[str, str], str]:
    """The figures of a column of the page, by size and peer."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines()]
    columns = next(line for line in lines if line and line[0] == "operation")
    rows = [dict(zip(columns, line, strict=True)) for line in lines if line[:1] == [OPERATION]]
    return {(row["size"], row["peer"]): row[column] for row in rows}


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)\n", PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def table() -> list[str]:
    page = sections()
    lines = [f"| where | size | {' | '.join(PEERS)} |", RULE]
    for place, title in PLACES.items():
        times = cells(page[title], "p50 us")
        for size in SIZES:
            line = [
                next((times[size, name] for name in names if (size, name) in times), "")
                for names in PEERS.values()
            ]
            lines.append(f"| {place} | {size} | {' | '.join(line)} |")
    return lines


def readme() -> str:
    lines = README.read_text().split("\n")
    rule = lines.index(RULE)
    return "\n".join(lines[: rule - 1] + table() + lines[lines.index("", rule) :])


def draw(path: Path) -> None:
    """Latency and bandwidth by size, for the number of ranks in README's picture."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    section = sections()[PLACES[DRAWN]]
    with rc_context(plot.SETTINGS):
        figure = Figure(figsize=(9, 3), layout="constrained")
        panels = figure.subplots(1, 2)
        for axes, column in zip(panels, ("p50 us", "busbw GB/s"), strict=True):
            values = cells(section, column)
            for peer in dict.fromkeys(peer for _, peer in values):
                places = [
                    (sizes.parse(size.replace(" ", "")), size)
                    for size, who in values
                    if who == peer
                ]
                ordered = [(bytes_, float(values[size, peer])) for bytes_, size in sorted(places)]
                colour = plot.COLOURS.get(peer)
                axes.plot(*zip(*ordered, strict=True), label=peer, color=colour, marker=".")
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter(lambda value, _: sizes.text(round(value)))
            axes.set_ylabel(column)
            axes.legend()
        panels[0].set_yscale("log")
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    README.write_text(readme())
    draw(PICTURE)
