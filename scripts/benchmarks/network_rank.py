# SPDX-License-Identifier: Apache-2.0
"""One of two ranks on the hosts of networks.py: times blocks of rocecoll and gloo in turn.

A block ends after a time, not after a number of iterations: TCP may all but stand still when packets
are lost. The ranks agree on everything over a group of gloo on the cable without loss.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

import rocecoll
from benchmarks.network_results import ORDER, Block
from benchmarks.networks import CONTROL, DATA, Dropper
from benchmarks.operations import Case, Operation

BLOCK_S = 1.0
BATCHES = 4  # about so many in a block; the ranks agree after each
GROWTH = 8  # at most so many times as many iterations as in the batch before
GIVE_UP_S = 20.0  # of one operation
AGREEMENT_LIMIT_S = 300.0


def agree(*values: float) -> list[float]:
    """The largest of both ranks, which also start together afterwards."""
    tensor = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    return tensor.tolist()


def total(*values: int) -> list[int]:
    tensor = torch.tensor(values, dtype=torch.int64)
    dist.all_reduce(tensor)
    return tensor.tolist()


class Contender:
    """A backend with a group for one case. The first operation that fails ends the group."""

    def __init__(self, backend: str, case: Case) -> None:
        self.backend, self.case = backend, case
        self.group: dist.ProcessGroup | None = None
        self.gave_up = not self.both(self.start)

    def start(self) -> None:
        os.environ["GLOO_SOCKET_IFNAME"] = DATA  # read when the group is made
        self.group = dist.new_group(backend=self.backend, timeout=timedelta(seconds=GIVE_UP_S))
        self.case.verify(self.group)

    def check(self) -> None:
        if not self.gave_up:
            self.gave_up = not self.both(lambda: self.case.verify(self.group))

    def succeeds(self, action: Callable[[], None]) -> bool:
        try:
            action()
        except RuntimeError as error:
            who = f"rank {dist.get_rank()}, {self.backend}"
            print(f"{who} gives up: {str(error).splitlines()[0]}", file=sys.stderr, flush=True)
            return False
        return True

    def both(self, action: Callable[[], None]) -> bool:
        return agree(float(not self.succeeds(action)))[0] == 0

    def block(self) -> Block:
        block, count = Block(gave_up=self.gave_up), 1
        if self.gave_up:  # it has not done one operation meanwhile
            block.seconds = GIVE_UP_S
        while not block.gave_up and block.seconds < BLOCK_S:
            seconds = self.batch(block, count)
            wanted = int(count * BLOCK_S / BATCHES / seconds)
            count = max(1, min(GROWTH * count, wanted))
        self.gave_up = block.gave_up
        return block

    def batch(self, block: Block, count: int) -> float:
        done, failed = 0, False
        agree()
        started = time.perf_counter()
        while done < count and not failed:
            failed = not self.succeeds(lambda: self.case.run(self.group))
            done += not failed
        seconds = time.perf_counter() - started
        seconds, missing, any_failed = agree(seconds, count - done, float(failed))
        block.iterations += count - int(missing)
        block.seconds += seconds
        block.gave_up = any_failed > 0
        return seconds


def counters(droppers: list[Dropper]) -> list[int]:
    """Of the droppers and of rocecoll, of both ranks."""
    came, dropped = droppers[dist.get_rank()].packets()
    ours = rocecoll.stats()
    names = ("packets_sent", "packets_retransmitted", "packets_marked")
    return total(came, dropped, *(ours[name] for name in names))


def counted_block(contender: Contender, droppers: list[Dropper]) -> Block:
    before = counters(droppers)
    block = contender.block()
    after = counters(droppers)
    block.packets, block.dropped, block.sent, block.retransmitted, block.marked = (
        new - old for new, old in zip(after, before, strict=True)
    )
    return block


def measure(case: Case, rounds: int, droppers: list[Dropper]) -> dict[str, list[dict]]:
    contenders = {backend: Contender(backend, case) for backend in dict.fromkeys(ORDER)}
    blocks: dict[str, list[dict]] = {backend: [] for backend in contenders}
    for _ in range(rounds):
        for backend in ORDER:
            contender = contenders[backend]
            blocks[backend].append(asdict(counted_block(contender, droppers)))
    for contender in contenders.values():
        contender.check()
    return blocks


def main(job: dict) -> None:
    droppers = [Dropper(**dropper) for dropper in job["droppers"]]
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = CONTROL
    dist.init_process_group("gloo", timeout=timedelta(seconds=AGREEMENT_LIMIT_S))
    cores = sorted(os.sched_getaffinity(0))
    if dist.get_world_size() <= len(cores):
        os.sched_setaffinity(0, {cores[dist.get_rank()]})
    for operation in map(Operation, job["operations"]):
        for size_bytes in job["sizes"]:
            blocks = measure(Case(operation, size_bytes), job["rounds"], droppers)
            if dist.get_rank() == 0:
                row = {
                    "network": job["network"],
                    "operation": operation.value,
                    "size_bytes": size_bytes,
                    "blocks": blocks,
                }
                with Path(job["report"]).open("a") as file:
                    file.write(json.dumps(row) + "\n")
    agree()
    # Not destroy_process_group: it would wait for groups that have given up.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
