# SPDX-License-Identifier: Apache-2.0
"""Start-up and 8-byte all_reduce by the number of local ranks: `growth.py [--ranks 2,4,8] [--rounds 3]`.

rocecoll and gloo take turns, each time with new processes, which one that has loaded both forks. They begin
together; the start-up ends with the first all_reduce, so links that are made on first use are in it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from dataclasses import dataclass
from multiprocessing.sharedctypes import SynchronizedArray
from multiprocessing.synchronize import Barrier

import torch
import torch.distributed as dist

# Registers the backend, and loads what its first group would load.
import rocecoll.torch_hooks  # noqa: F401
from rocecoll import _c10d  # noqa: F401
from rocecoll.bench.local_ranks import free_port

PEERS = ("rocecoll", "gloo")
WARM_UP, TIMED = 5, 50
LIMIT_S = 60
CONTEXT = multiprocessing.get_context("fork")


@dataclass
class Figures:
    start_ms: float
    latency_us: float


def rank_main(
    rank: int,
    ranks: int,
    backend: str,
    port: int,
    together: Barrier,
    told: SynchronizedArray[float],
) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    data = torch.ones(1, dtype=torch.int64)
    together.wait(LIMIT_S)
    begin = time.perf_counter()
    dist.init_process_group(
        backend, init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks
    )
    dist.all_reduce(data)
    start_s = time.perf_counter() - begin
    if data.item() != ranks:
        raise RuntimeError(f"{backend}: {data.item()} is not the sum of {ranks} ones")
    times = []
    for _ in range(WARM_UP + TIMED):
        begin = time.perf_counter()
        dist.all_reduce(data)
        times.append(time.perf_counter() - begin)
    told[2 * rank] = start_s
    told[2 * rank + 1] = statistics.median(times[WARM_UP:])
    dist.destroy_process_group()


def measure(backend: str, ranks: int) -> Figures:
    """The start-up of the slowest rank, and the median over ranks of their median operation."""
    together = CONTEXT.Barrier(ranks)
    told = CONTEXT.Array("d", 2 * ranks)
    port = free_port()
    processes = [
        CONTEXT.Process(
            target=rank_main, args=(rank, ranks, backend, port, together, told), daemon=True
        )
        for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    end = time.monotonic() + LIMIT_S
    for process in processes:
        process.join(max(0.0, end - time.monotonic()))
    failed = [rank for rank, process in enumerate(processes) if process.exitcode != 0]
    for process in processes:
        process.kill()
        process.join()
    if failed:
        raise SystemExit(f"growth: {backend} with {ranks} ranks: ranks {failed} failed")
    return Figures(max(told[::2]) * 1e3, statistics.median(told[1::2]) * 1e6)


def row(ranks: int, rounds: int) -> str:
    seen: dict[str, list[Figures]] = {peer: [] for peer in PEERS}
    for turn in range(rounds):
        for peer in PEERS if turn % 2 == 0 else reversed(PEERS):
            seen[peer].append(measure(peer, ranks))
    cells = [str(ranks)]
    for name, unit in (("start_ms", "ms"), ("latency_us", "us")):
        ours, theirs = ([getattr(figure, name) for figure in seen[peer]] for peer in PEERS)
        ratios = sorted(their / our for our, their in zip(ours, theirs, strict=True))
        cells += [
            f"{statistics.median(ours):.0f} {unit}",
            f"{statistics.median(theirs):.0f} {unit}",
        ]
        cells.append(f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", default="2,4,8,16,32,64", help="numbers of ranks")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each, at every number")
    arguments = parser.parse_args()
    print("| ranks | start | gloo's | gloo's over ours | 8 B | gloo's | gloo's over ours |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for ranks in arguments.ranks.split(","):
        print(row(int(ranks), arguments.rounds), flush=True)


if __name__ == "__main__":
    main()
