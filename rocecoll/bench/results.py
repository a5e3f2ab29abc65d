# SPDX-License-Identifier: Apache-2.0
"""Results of the blocks that the ranks have timed: figures of each peer, and how they compare."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rocecoll.bench.operations import Case, bus_factor
from rocecoll.bench.plan import OURS

HOST, HOST_UDP, HOSTS = "host", "host:udp", "hosts"
IN_WORDS = {HOST: "", HOST_UDP: "over UDP", HOSTS: ""}  # names of other networks say what they are


@dataclass
class Block:
    """What one peer did in its turn. An operation takes as long as its slowest rank.

    Processor time and counters are of all ranks together.
    """

    times_us: Sequence[float] = ()  # of each operation
    seconds: float = 0.0  # of all of them, including one that was given up
    cpu_s: float = 0.0
    gave_up: bool = False
    packets: int = 0  # packets of all programs that reach the place where the network drops some
    dropped: int = 0
    sent: int = 0  # rocecoll's
    retransmitted: int = 0
    marked: int = 0
    rtt_us: float | None = None  # of rocecoll's links at the end, where they measure it
    window_bytes: int | None = None
    others: int = 0  # bytes that other programs got over the network
    lasted_s: float = 0.0  # with what the ranks had to agree on


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def part(some: float, whole: float) -> float:
    return some / whole if whole else 0.0


@dataclass(frozen=True)
class Figures:
    """The figures of all blocks of a peer. If it gave up, times are lower bounds and rates upper ones.

    Bandwidths are of all bytes in the whole time, so they include the tail, which p50 does not.
    """

    p50_us: float
    p95_us: float
    p99_us: float
    algbw_gb_s: float
    busbw_gb_s: float
    cpu_s_per_gb: float | None  # of one rank, for a GB of the size; None: nothing was moved
    operations: int
    gave_up: bool
    dropped_share: float
    retransmitted_share: float
    marked_share: float
    rtt_us: float | None  # the median of the blocks; None: not rocecoll, or not measured
    window_bytes: float | None
    others_gb_s: float  # what other programs got over the network meanwhile


def median_of(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def all_times_us(blocks: list[Block]) -> list[float]:
    """An operation that was given up counts as if it had ended at that moment."""
    ended = [time for block in blocks for time in block.times_us]
    given_up = [block.seconds * 1e6 - sum(block.times_us) for block in blocks if block.gave_up]
    return ended + given_up


def figures(blocks: list[Block], case: Case, ranks: int) -> Figures:
    times = all_times_us(blocks)
    moved = case.bytes(ranks) * len(times)
    seconds = sum(times) / 1e6 if case.after_ms else sum(block.seconds for block in blocks)
    algbw = moved / 1e9 / seconds
    return Figures(
        p50_us=statistics.median(times),
        p95_us=percentile(times, 0.95),
        p99_us=percentile(times, 0.99),
        algbw_gb_s=algbw,
        busbw_gb_s=algbw * bus_factor(case.operation, ranks),
        cpu_s_per_gb=sum(b.cpu_s for b in blocks) / ranks / (moved / 1e9) if moved else None,
        operations=sum(len(block.times_us) for block in blocks),
        gave_up=any(block.gave_up for block in blocks),
        dropped_share=part(sum(b.dropped for b in blocks), sum(b.packets for b in blocks)),
        retransmitted_share=part(sum(b.retransmitted for b in blocks), sum(b.sent for b in blocks)),
        marked_share=part(sum(b.marked for b in blocks), sum(b.sent for b in blocks)),
        rtt_us=median_of(b.rtt_us for b in blocks),
        window_bytes=median_of(b.window_bytes for b in blocks),
        others_gb_s=part(sum(b.others for b in blocks), sum(b.lasted_s for b in blocks)) / 1e9,
    )


@dataclass(frozen=True)
class Ratio:
    """A peer's time over rocecoll's: the ratio of the medians, and its range over the rounds."""

    of_medians: float
    least: float
    most: float


def where(network: str, ranks: int, hosts: int, beside: str = "", after_ms: float = 0) -> str:
    """The result in words."""
    if ranks == 1:
        return "1 rank"
    on_each, odd = divmod(ranks, hosts)
    if hosts == 1 or odd:
        found = f"{ranks} ranks on {f'{hosts} hosts' if odd else 'one host'}"
    else:
        found = f"{hosts} hosts{f' with {on_each} ranks each' if on_each > 1 else ''}"
    parts = [found, IN_WORDS.get(network, network), f"beside {beside}" if beside else ""]
    parts += [f"each call after {after_ms:g} ms of computing"] if after_ms else []
    return ", ".join(part for part in parts if part)


@dataclass
class Row:
    """A case on a network, with all peers that can run it. A round has two blocks of each peer."""

    network: str
    ranks: int
    case: Case
    blocks: dict[str, list[Block]] = field(default_factory=dict)
    wrong: dict[str, int] = field(default_factory=dict)  # elements, of all ranks
    hosts: int = 1
    beside: str = ""  # the only peer in these processes; others had processes of their own

    @property
    def where(self) -> str:
        return where(self.network, self.ranks, self.hosts, self.beside, self.case.after_ms)

    @property
    def rounds(self) -> int:
        return len(self.blocks[OURS]) // 2

    def figures(self, peer: str) -> Figures:
        return figures(self.blocks[peer], self.case, self.ranks)

    def median_us(self, peer: str, turn: slice = slice(None)) -> float:
        return statistics.median(all_times_us(self.blocks[peer][turn]))

    def ratio(self, peer: str) -> Ratio:
        rounds = [
            self.median_us(peer, slice(first, first + 2))
            / self.median_us(OURS, slice(first, first + 2))
            for first in range(0, len(self.blocks[OURS]), 2)
        ]
        return Ratio(self.median_us(peer) / self.median_us(OURS), min(rounds), max(rounds))

    def json(self) -> dict[str, Any]:
        """For --json and --output. Of each block only the median is kept."""
        peers = {
            peer: {
                **asdict(self.figures(peer)),
                "wrong": self.wrong[peer],
                "time_over_rocecoll": asdict(self.ratio(peer)),
                "block_medians_us": [
                    self.median_us(peer, slice(turn, turn + 1))
                    for turn in range(len(self.blocks[peer]))
                ],
            }
            for peer in self.blocks
        }
        described = {
            "network": self.network,
            "ranks": self.ranks,
            "hosts": self.hosts,
            **asdict(self.case),
            "bytes": self.case.bytes(self.ranks),
        }
        return {**described, "peers": peers}
