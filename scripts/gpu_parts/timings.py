# SPDX-License-Identifier: Apache-2.0
"""all_reduce of tensors of the device over rocecoll and gloo, and of the CPU's over rocecoll, in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

from gpu_parts.collectives import agreed
from gpu_parts.rank import Rank

MIB = 1 << 20
LARGEST, SMALL_LARGEST = 256 * MIB, MIB
TURNS = 4
WARM_UP = 2
RESERVE_S = 15.0
FIGURES = "median us"  # the name under which the report finds them

Call = Callable[[torch.Tensor], object]
Peer = tuple[Call, torch.device]


def run(rank: Rank) -> None:
    rank.join()
    place = rank.device.torch
    name = rank.device.kind.upper()

    def ours(tensor: torch.Tensor) -> object:
        return dist.all_reduce(tensor)

    peers: dict[str, Peer] = {f"rocecoll, {name}": (ours, place)}
    if rank.device.kind != "fake":  # which gloo does not know
        gloo = dist.new_group(backend="gloo")
        try:
            dist.all_reduce(rank.device.full(1, 0), group=gloo)
            peers[f"gloo, {name}"] = (lambda tensor: dist.all_reduce(tensor, group=gloo), place)
        except RuntimeError as error:
            rank.tell("gloo refuses", str(error).splitlines()[0])
    if rank.device.kind != "cpu":
        peers["rocecoll, CPU"] = (ours, torch.device("cpu"))
    measure(rank, peers)
    dist.barrier()
    dist.destroy_process_group()


def sizes(rank: Rank) -> list[int]:
    found, largest = [8], SMALL_LARGEST if rank.small else LARGEST
    while found[-1] * 8 <= largest:
        found.append(found[-1] * 8)
    return found if found[-1] == largest else [*found, largest]


def repetitions(size: int) -> int:
    """In a turn."""
    return 50 if size <= 1 << 16 else 10 if size <= 4 * MIB else 2


def measure(rank: Rank, peers: dict[str, Peer]) -> None:
    """Told as they come: time may run out, of all ranks at the same size."""
    rows: list[dict[str, float]] = []
    for size in sizes(rank):
        if not agreed(rank.left_s > RESERVE_S):
            rank.tell("left out for lack of time", f"{size} B and more")
            return
        tensors = {name: torch.zeros(size // 4).to(place) for name, (_, place) in peers.items()}
        times: dict[str, list[float]] = {name: [] for name in peers}
        for turn in range(TURNS):
            for name in list(peers) if turn % 2 == 0 else reversed(list(peers)):
                call = peers[name][0]
                times[name] += timed(rank, call, tensors[name], repetitions(size))
        medians = torch.tensor([statistics.median(times[name]) for name in peers])
        dist.all_reduce(medians, dist.ReduceOp.MAX)  # the slowest rank's
        row = {name: round(1e6 * one, 1) for name, one in zip(peers, medians.tolist(), strict=True)}
        rows.append({"bytes": size, **row})
        rank.tell(FIGURES, rows)


def timed(rank: Rank, call: Call, tensor: torch.Tensor, times: int) -> list[float]:
    """Each until the device is done."""
    for _ in range(WARM_UP):
        call(tensor)
    rank.device.synchronize()
    dist.barrier()
    seconds = []
    for _ in range(times):
        begin = time.perf_counter()
        call(tensor)
        if tensor.device.type != "cpu":
            rank.device.synchronize()
        seconds.append(time.perf_counter() - begin)
    return seconds
