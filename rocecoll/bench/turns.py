# SPDX-License-Identifier: Apache-2.0
"""One rank's part of a case: it takes blocks of all peers in turn.

A round goes A B C C B A, so that a machine that becomes slower or busier affects all alike. A block ends
after a time, not after a number of operations: TCP may nearly stop when packets are lost. The ranks
agree on everything over a group of gloo that is not measured, on a network without loss.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch
import torch.distributed as dist

import rocecoll
from rocecoll.bench.buffers import Buffers
from rocecoll.bench.computing import Computing
from rocecoll.bench.peers import GIVE_UP_S, Peer
from rocecoll.bench.plan import OURS, Plan
from rocecoll.bench.report import Line
from rocecoll.bench.results import Block

BATCHES = 4  # about this many in a block; the ranks agree after each
GROWTH = 8  # a batch has at most this many times the operations of the one before
MOST_OPERATIONS = 2000  # in a batch


class LostError(Exception):
    """The ranks can no longer agree: one has ended, or does not answer."""


def by_rank(mine: torch.Tensor) -> list[Any]:
    """The numbers of every rank; all ranks give equally many."""
    everybody = mine.new_empty(dist.get_world_size() * len(mine))
    try:
        dist.all_gather_single(everybody, mine)
    except RuntimeError as error:
        raise LostError(first_line(error)) from error
    found: list[Any] = everybody.view(-1, len(mine)).tolist()
    return found


def gathered(*mine: float) -> list[list[float]]:
    """The text of every rank. Afterwards the ranks start together."""
    return by_rank(torch.tensor(mine or (0.0,), dtype=torch.float64))


def told_by_all(mine: Any) -> list[Any]:
    """A JSON value of each rank. torch's own call for objects needs numpy, which may be missing."""
    text = json.dumps(mine).encode()
    longest = int(max(length for [length] in gathered(len(text))))
    padded = torch.tensor(list(text.ljust(longest)), dtype=torch.uint8)
    return [json.loads(bytes(one)) for one in by_rank(padded)]


def say(text: str) -> None:
    print(f"rocecoll bench: {text}", file=sys.stderr, flush=True)


def first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def total(*mine: float) -> list[float]:
    return [sum(column) for column in zip(*gathered(*mine), strict=True)]


def processor_s() -> float:
    """User and system time of all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def wait_us(called: Sequence[float], complete: Sequence[float], apart: bool) -> float:
    """Times of the slowest rank.

    Ranks that compute first call `apart`: an operation then begins with the last rank's call. All ranks
    are on this host and so have the same clock.
    """
    if apart:
        return round((max(complete) - max(called)) * 1e6, 2)
    return round(max(end - begin for begin, end in zip(called, complete, strict=True)) * 1e6, 2)


class Contender:
    """A peer in one case. The first operation that fails ends its part in it."""

    def __init__(self, peer: Peer, buffers: Buffers, block_s: float) -> None:
        self.peer, self.buffers, self.block_s = peer, buffers, block_s
        self.compute: Callable[[], None] = lambda: None
        if buffers.case.after_ms:
            self.compute = Computing(buffers.rank, buffers.case.after_ms / 1e3)
        self.run: Callable[[], None] = lambda: None
        self.wrong, self.count = 0, 1
        self.gave_up = not self.all_succeed(self.start)
        self.warm_up()

    def start(self) -> None:
        self.peer.open()
        self.run = self.peer.call(self.buffers)
        self.verify()

    def verify(self) -> None:
        """Outside the timed part: one call on known numbers; the whole result is compared."""
        self.buffers.fill()
        self.run()
        if self.peer.moves_data:
            self.wrong += self.buffers.wrong()
        self.buffers.clear()

    def succeeds(self, action: Callable[[], None]) -> bool:
        try:
            action()
        except RuntimeError as error:
            say(f"rank {dist.get_rank()}: {self.peer.name} gives up: {first_line(error)}")
            return False
        return True

    def all_succeed(self, action: Callable[[], None]) -> bool:
        return total(float(not self.succeeds(action))) == [0]

    def warm_up(self) -> None:
        """Runs batches until one takes as long as it should."""
        discarded, before = Block(), 0
        while not self.gave_up and self.count > before:
            before = self.count
            self.batch(discarded)

    def block(self) -> Block:
        block = Block(gave_up=self.gave_up)
        if self.gave_up:  # it has not finished a single operation in this time
            block.seconds = GIVE_UP_S
        while not self.gave_up and block.seconds < self.block_s:
            self.batch(block)
        return block

    def batch(self, block: Block) -> None:
        calls: list[float] = []
        results: list[float] = []
        failed, count = False, self.count
        gathered()
        processor, started = processor_s(), time.perf_counter()
        while len(results) < count and not failed:
            self.compute()
            calls.append(time.perf_counter())
            failed = not self.succeeds(self.run)
            results.append(time.perf_counter())
        seconds, processor = time.perf_counter() - started, processor_s() - processor
        done = len(results) - failed
        missing = [0.0] * (count - len(results))
        ends, used, took, *by_operation = zip(
            *gathered(done, processor, seconds, *calls, *missing, *results, *missing), strict=True
        )
        called, complete = by_operation[:count], by_operation[count:]
        apart = self.buffers.case.after_ms > 0
        waits = [wait_us(*one, apart) for one in zip(called, complete, strict=True)]
        block.times_us = [*block.times_us, *waits[: int(min(ends))]]
        block.seconds += max(took)
        block.cpu_s += sum(used)
        block.gave_up = self.gave_up = min(ends) < count
        wanted = int(count * self.block_s / BATCHES / max(took))
        self.count = max(1, min(GROWTH * count, wanted, MOST_OPERATIONS))

    def finish(self) -> int:
        """How many elements were wrong on all ranks together."""
        if not self.gave_up:
            self.gave_up = not self.all_succeed(self.verify)
        if self.gave_up:
            self.peer.drop()
        return int(total(self.wrong)[0])


class Dropper(Protocol):
    """A place on the network path that drops packets and counts them."""

    def packets(self) -> tuple[int, int]:
        """How many packets have come so far, and how many of them were dropped."""


class Flow(Protocol):
    """Traffic of other programs over the network meanwhile."""

    def received(self) -> int:
        """Bytes so far."""


@dataclass(frozen=True)
class Way:
    """What this rank knows of the network path. Each counter is known to one rank only."""

    droppers: Sequence[Dropper] = ()
    others: Sequence[Flow] = ()


def counters(way: Way) -> list[float]:
    """The counters of the network path and of rocecoll, summed over all ranks."""
    seen = [dropper.packets() for dropper in way.droppers]
    came, dropped = max((one[0] for one in seen), default=0), sum(one[1] for one in seen)
    ours = rocecoll.stats()
    names = ("packets_sent", "packets_retransmitted", "packets_marked")
    others = sum(flow.received() for flow in way.others)
    return total(came, dropped, *(ours[name] for name in names), others)


def widest_link() -> tuple[float | None, int | None]:
    """The longest round trip and the largest window of rocecoll's links on all ranks, if measured."""
    mine = [row for row in rocecoll.peer_stats() if row["in_use"]]
    measured = (
        max((row[name] or 0 for row in mine), default=0)
        for name in ("rtt_us", "congestion_window_bytes")
    )
    rtt_us, window = (max(column) for column in zip(*gathered(*measured), strict=True))
    return rtt_us or None, int(window) or None


def counted_block(contender: Contender, way: Way) -> Block:
    before, started = counters(way), time.perf_counter()
    block = contender.block()
    after, block.lasted_s = counters(way), time.perf_counter() - started
    block.packets, block.dropped, block.sent, block.retransmitted, block.marked, block.others = (
        int(new - old) for new, old in zip(after, before, strict=True)
    )
    if contender.peer.name == OURS:
        block.rtt_us, block.window_bytes = widest_link()
    return block


def measure_case(
    number: int,
    plan: Plan,
    peers: Sequence[Peer],
    tell: Callable[[Line], None],
    way: Way,
) -> None:
    case = plan.cases[number]
    buffers = Buffers(case, dist.get_rank(), dist.get_world_size())
    contenders = [Contender(peer, buffers, plan.block_s) for peer in peers if peer.supports(case)]
    for _ in range(plan.rounds):
        for contender in (*contenders, *reversed(contenders)):
            block = counted_block(contender, way)
            tell({"case": number, "peer": contender.peer.name, "block": asdict(block)})
    wrong = {contender.peer.name: contender.finish() for contender in contenders}
    tell({"case": number, "wrong": wrong})
