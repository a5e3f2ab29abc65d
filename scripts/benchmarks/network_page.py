# SPDX-License-Identifier: Apache-2.0
"""The page of scripts/network_matrix: one table, and how to read it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.network_spec import settings
from benchmarks.page import markdown_table
from benchmarks.tcp_peer import name_of
from rocecoll.bench import sizes
from rocecoll.bench.operations import Operation
from rocecoll.bench.plan import OURS
from rocecoll.bench.results import Figures, Row
from rocecoll.bench.tables import bounded, hundredths, short

HEAD = """\
# Networks

What congestion control makes of ordinary networks between two hosts, rocecoll's over UDP beside TCP's under gloo. Made
by the command below, as root, which makes it anew; not edited by hand.
"""
READING = """\
## How to read it

The hosts are network namespaces of one machine and share its processors, so compare the cells of a line with each
other rather than with a network of your own. All take turns in the same processes, some seconds each. A line's network
is made by `./scripts/bench --network` as well, which has [the words for it](../CONTRIBUTING.md#test).

- `MB/s` are millions of bytes of the operation's size in a second of all the time. An all_reduce of two ranks sends its
  size each way; a broadcast goes one way, as a send does.
- `sent again` is the part of rocecoll's packets that it took for lost.
- `round trip` and `window` are what rocecoll measured and allowed itself in the end, of the rank that has more of it.
  A round trip far above the delay is a queue that somebody fills.
- `ours over best` is rocecoll's rate over the better one of gloo's. `<` and `>` stand before bounds, where an operation
  was given up.
- `TCP beside` is what the other TCP flow of a line got, in MB/s, while rocecoll was at work, and while gloo was under
  each congestion control in turn; `-` where it was not measured.
- KiB and MiB are 1024 and 1048576 bytes, as in `tc`, which calls them kb and mb.

## What is worth knowing

A **token bucket** is how most systems hold a sender to a rate: `tc tbf`, the bandwidth of a Kubernetes pod, of a virtual
machine or of a cloud's instance. Tokens come in at the rate, and a packet that leaves takes its size of them. After a
pause the bucket is full, and so much (the *burst*) leaves at once, as fast as the line below it goes; then packets wait,
up to the *limit*, and what comes on top is dropped. So the first packets after a pause tell nothing about the rate, and
a sender that takes their speed for it loses all that the limit has no room for. Where the limit is much smaller than
what the path holds, rate times round trip, only who sends evenly keeps the path busy.

A bucket **at the host** itself drops before a packet has left, and the kernel says so to who sends it, TCP or rocecoll.
One **at a router** tells nobody: its losses are found out a round trip later.

With offloads the kernel hands on up to 64 KiB at once, and a bucket whose burst is larger takes them whole, and drops
them whole. `singly` is without offloads, as behind many virtual devices.

**Ask for ECN** where you have a say in the switches: a queue that marks packets before it is full makes senders slow
down without losing anything, and rocecoll reacts to it without being told ([how](tuning.md#ecn-and-dscp)). It is worth
most where many send to one, or queues are short. Token buckets of hosts and clouds do not mark.
"""
WORDS = {
    "rate": "{}",
    "where": "at the {}",
    "burst": "burst {}",
    "limit": "limit {}",
    "delay": "{} each way",
    "jitter": "jitter {}",
    "offload": "singly",
    "beside": "beside {}",
}
NO_SHAPER = "no shaper"
UNITS = {"kbit": "kbit/s", "mbit": "Mbit/s", "gbit": "Gbit/s", "kb": "KiB", "mb": "MiB"}


@dataclass(frozen=True)
class Line:
    row: Row
    controller: str


def words(network: str) -> str:
    """Of the properties that a name of a network has."""
    found = {key: value for key, value in settings(network).items() if key in WORDS}
    if "rate" in found:
        found.setdefault("where", "router")
    said = [template.format(told(found[key])) for key, template in WORDS.items() if key in found]
    return ", ".join(said) or NO_SHAPER


def told(value: str) -> str:
    if "tcp:" in value:
        return value.replace("*", " ").replace("tcp:", "TCP ")
    return re.sub(r"(\d+)([a-z]+)", lambda m: f"{m[1]} {UNITS.get(m[2], m[2])}", value)


def rate(row: Row, peer: str) -> str:
    figures = row.figures(peer)
    return bounded(figures, "<", short(figures.algbw_gb_s * 1e3))


def over_best(ours: Figures, others: Sequence[Figures]) -> str:
    """A rate of whoever gave up is an upper bound, and nothing is known of the ratio of two."""
    if not others:
        return ""
    best = max(others, key=lambda one: one.algbw_gb_s)
    if ours.gave_up and best.gave_up:
        return "-"
    ratio = hundredths(ours.algbw_gb_s / best.algbw_gb_s)
    return bounded(ours, "<", bounded(best, ">", ratio))


def beside(row: Row, peers: Sequence[str]) -> str:
    """With a place for each, also of those that are not there."""
    got = {peer: row.figures(peer).others_gb_s * 1e3 for peer in peers if peer in row.blocks}
    if not any(got.values()):
        return ""
    return ", ".join(short(got[one]) if one in got else "-" for one in peers)


def columns(controls: Iterable[str]) -> list[str]:
    named = [
        "network",
        "operation",
        "controller",
        "ours MB/s",
        "sent again",
        "round trip",
        "window",
    ]
    return [*named, *(f"gloo, {one} MB/s" for one in controls), "ours over best", "TCP beside"]


def cells(line: Line, controls: Sequence[str]) -> list[str]:
    row, ours = line.row, line.row.figures(OURS)
    peers = [name_of(one) for one in controls]
    there = [peer for peer in peers if peer in row.blocks]
    one_way = ", one way" if row.case.operation is Operation.broadcast else ""
    return [
        words(row.network),
        f"{row.case.operation.value}{one_way}, {sizes.text(row.case.bytes(row.ranks))}",
        line.controller,
        rate(row, OURS),
        f"{100 * ours.retransmitted_share:.1f} %",
        "" if ours.rtt_us is None else f"{short(ours.rtt_us / 1e3)} ms",
        "" if ours.window_bytes is None else f"{short(ours.window_bytes / sizes.KIB)} KiB",
        *(rate(row, peer) if peer in there else "" for peer in peers),
        over_best(ours, [row.figures(peer) for peer in there]),
        beside(row, [OURS, *peers]),
    ]


def write(
    path: Path,
    command: str,
    facts: Mapping[str, str | int],
    lines: Iterable[Line],
    controls: Sequence[str],
) -> None:
    parts = [HEAD, f"```\n{command}\n```\n"]
    table = markdown_table(columns(controls), (cells(line, controls) for line in lines))
    parts += ["\n".join(table) + "\n", READING]
    machine = markdown_table(("machine", ""), ((name, str(fact)) for name, fact in facts.items()))
    parts += ["## Where it was measured\n", "\n".join(machine) + "\n"]
    path.write_text("\n".join(parts))
