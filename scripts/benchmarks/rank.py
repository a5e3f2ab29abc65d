# SPDX-License-Identifier: Apache-2.0
"""One rank of scripts/bench: takes blocks of all peers in turn. rank.py JOB, in JSON.

A round goes A B C C B A, so that a machine that grows slower or busier hurts all alike. A block ends
after a time, not after a number of operations: TCP may all but stand still when packets are lost. The
ranks agree on everything over a group of gloo that is nobody's peer, on a network without loss.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import rocecoll
from benchmarks import core_peer, mpi_peer, sweep, udp_peer
from benchmarks.buffers import Buffers
from benchmarks.networks import DATA_ADDRESSES, Dropper
from benchmarks.operations import Case
from benchmarks.peers import GIVE_UP_S, Peer, TorchPeer
from benchmarks.results import Block

BATCHES = 4  # about so many in a block; the ranks agree after each
GROWTH = 8  # at most so many times as many operations as in the batch before
MOST_OPERATIONS = 2000  # in a batch
AGREEMENT_LIMIT_S = 300.0


def gathered(*mine: float) -> list[list[float]]:
    """What every rank has to say; they also start together afterwards."""
    tensor = torch.tensor(mine or (0.0,), dtype=torch.float64)
    everybody = torch.empty(dist.get_world_size() * len(tensor), dtype=torch.float64)
    dist.all_gather_single(everybody, tensor)
    return everybody.view(-1, len(tensor)).tolist()


def total(*mine: float) -> list[float]:
    return [sum(column) for column in zip(*gathered(*mine), strict=True)]


def processor_s() -> float:
    """User and system, of all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Contender:
    """A peer at one case. The first operation that fails ends its part in it."""

    def __init__(self, peer: Peer, buffers: Buffers, block_s: float) -> None:
        self.peer, self.buffers, self.block_s = peer, buffers, block_s
        self.run: Callable[[], None] = lambda: None
        self.wrong, self.count = 0, 1
        self.gave_up = not self.all_succeed(self.start)
        self.warm_up()

    def start(self) -> None:
        self.peer.open()
        self.run = self.peer.call(self.buffers)
        self.verify()

    def verify(self) -> None:
        """Outside of what is timed: once on known numbers, and all that was produced is compared."""
        self.buffers.fill()
        self.run()
        self.wrong += self.buffers.wrong()
        self.buffers.clear()

    def succeeds(self, action: Callable[[], None]) -> bool:
        try:
            action()
        except RuntimeError as error:
            who = f"rank {dist.get_rank()}, {self.peer.name}"
            print(f"{who} gives up: {str(error).splitlines()[0]}", file=sys.stderr, flush=True)
            return False
        return True

    def all_succeed(self, action: Callable[[], None]) -> bool:
        return total(float(not self.succeeds(action))) == [0]

    def warm_up(self) -> None:
        """Until a batch is as long as it is meant to be."""
        discarded, before = Block(), 0
        while not self.gave_up and self.count > before:
            before = self.count
            self.batch(discarded)

    def block(self) -> Block:
        block = Block(gave_up=self.gave_up)
        if self.gave_up:  # it has not done one operation meanwhile
            block.seconds = GIVE_UP_S
        while not self.gave_up and block.seconds < self.block_s:
            self.batch(block)
        return block

    def batch(self, block: Block) -> None:
        times: list[float] = []
        failed, count = False, self.count
        gathered()
        processor, started = processor_s(), time.perf_counter()
        while len(times) < count and not failed:
            begun = time.perf_counter()
            failed = not self.succeeds(self.run)
            times.append(time.perf_counter() - begun)
        seconds, processor = time.perf_counter() - started, processor_s() - processor
        done = len(times) - failed
        times += [0.0] * (count - len(times))
        ends, used, took, *by_operation = zip(
            *gathered(done, processor, seconds, *times), strict=True
        )
        slowest = [round(max(ranks) * 1e6, 2) for ranks in by_operation[: int(min(ends))]]
        block.times_us = [*block.times_us, *slowest]
        block.seconds += max(took)
        block.cpu_s += sum(used)
        block.gave_up = self.gave_up = min(ends) < count
        wanted = int(count * self.block_s / BATCHES / max(took))
        self.count = max(1, min(GROWTH * count, wanted, MOST_OPERATIONS))

    def finish(self) -> int:
        """Elements that were wrong, of all ranks."""
        if not self.gave_up:
            self.gave_up = not self.all_succeed(self.verify)
        if self.gave_up:
            self.peer.drop()
        return int(total(self.wrong)[0])


def counters(droppers: list[Dropper]) -> list[float]:
    """Of the droppers and of rocecoll, of all ranks."""
    seen = [dropper.packets() for dropper in droppers]
    came, dropped = max((one[0] for one in seen), default=0), sum(one[1] for one in seen)
    ours = rocecoll.stats()
    names = ("packets_sent", "packets_retransmitted", "packets_marked")
    return total(came, dropped, *(ours[name] for name in names))


def counted_block(contender: Contender, droppers: list[Dropper]) -> Block:
    before = counters(droppers)
    block = contender.block()
    after = counters(droppers)
    block.packets, block.dropped, block.sent, block.retransmitted, block.marked = (
        int(new - old) for new, old in zip(after, before, strict=True)
    )
    return block


class Report:
    """Lines of JSON, of rank 0 alone: launcher.py reads them while they come."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("a") if dist.get_rank() == 0 else None

    def write(self, line: dict[str, Any]) -> None:
        if self.file is not None:
            self.file.write(json.dumps(line) + "\n")
            self.file.flush()


def measure(
    number: int, case: Case, peers: list[Peer], job: dict[str, Any], report: Report
) -> None:
    droppers = [Dropper(**one) for one in job["droppers"][dist.get_rank()]]
    buffers = Buffers(case, dist.get_rank(), dist.get_world_size())
    contenders = [Contender(peer, buffers, job["block_s"]) for peer in peers if peer.supports(case)]
    for _ in range(job["rounds"]):
        for contender in (*contenders, *reversed(contenders)):
            block = counted_block(contender, droppers)
            report.write({"case": number, "peer": contender.peer.name, "block": asdict(block)})
    wrong = {contender.peer.name: contender.finish() for contender in contenders}
    report.write({"case": number, "wrong": wrong})


def made(name: str, job: dict[str, Any]) -> Peer:
    if name in mpi_peer.NETWORKS:
        return mpi_peer.MpiPeer(name)
    on_network = job["data_interface"] is not None
    if name == core_peer.NAME:
        return core_peer.CorePeer()
    if name == udp_peer.NAME:
        address = DATA_ADDRESSES[dist.get_rank()] if on_network else "127.0.0.1"
        return udp_peer.UdpPeer(address, job["data_interface"] or "lo")
    if sweep.SEPARATOR in name:
        return sweep.AlgorithmPeer(name, job["data_interface"])
    return TorchPeer(name, job["data_interface"])


def main(job: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    if mpi_peer.among(job["peers"]):
        mpi_peer.take_rank()
    if job["control_interface"] is not None:
        os.environ["GLOO_SOCKET_IFNAME"] = job["control_interface"]
    dist.init_process_group("gloo", timeout=timedelta(seconds=AGREEMENT_LIMIT_S))
    peers = [made(name, job) for name in job["peers"]]
    for peer in peers:
        peer.open()
    # Afterwards, because a backend may ask how many cores its process has.
    cores = sorted(os.sched_getaffinity(0))
    if dist.get_world_size() <= len(cores):
        os.sched_setaffinity(0, {cores[dist.get_rank()]})
    report = Report(Path(job["report"]))
    for number, case in enumerate(map(Case.read, job["cases"])):
        measure(number, case, peers, job, report)
    gathered()
    for peer in peers:
        peer.close()
    # Not destroy_process_group: it would wait for groups that have given up.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
