# SPDX-License-Identifier: Apache-2.0
"""A page of Markdown about one run of scripts/bench: machine, command and tables."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from benchmarks import tables
from rocecoll.bench.results import Row

READING = """\
Made by the command below, which makes it anew; not edited by hand. Sizes and bandwidths are those of
nccl-tests. All peers take turns in the same processes, so compare the lines of a size with each other
rather than with another machine's: `time / ours` is a peer's median time over rocecoll's, with the range over
the rounds behind it. Bandwidths count all bytes in all the time, stalls of the machine included. `CPU s/GB` is
processor time of one rank, `raw-udp` a program without any reliability over plain sockets, `mpi` OpenMPI over
TCP, `mpi-shm` over shared memory, and `mpi-ucx` over UCX, which takes shared memory, or TCP where rocecoll takes
UDP; a process has one OpenMPI, so that a second one has processes and a table of its own. Hosts of a network are
namespaces, which share the processors.
`cache_line_round_trip` is the time in which a cache line goes to another core and comes back, before the run
and after it: in a virtual machine its cores may move closer together and farther apart meanwhile."""


def markdown_table(columns: Iterable[str], lines: Iterable[Iterable[str]]) -> list[str]:
    columns = list(columns)
    made = [columns, ["---:"] * len(columns), *lines]
    return [f"| {' | '.join(cell.replace('|', ' ') for cell in line)} |" for line in made]


def write(path: Path, facts: dict[str, str | int], rows: list[Row]) -> None:
    lines = ["# Performance", "", READING, "", "```", str(facts["command"]), "```", ""]
    described = [(name, str(value)) for name, value in facts.items() if name != "command"]
    lines += markdown_table(("machine", ""), described)
    for group in tables.groups(rows):
        lines += ["", f"## {group.title}", ""]
        lines += markdown_table(group.columns, group.lines(rows))
    path.write_text("\n".join(lines) + "\n")
