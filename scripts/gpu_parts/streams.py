# SPDX-License-Identifier: Apache-2.0
"""Calls after late work, results used on other streams, many in flight whose tensors are let go, threads."""

from __future__ import annotations

import threading

import torch
import torch.distributed as dist

from gpu_parts.rank import Rank

LARGE, SMALL = 4_000_000, 300_000  # elements
LATE_S = 0.3
THREADS, CALLS_OF_A_THREAD = 3, 20
THREADS_LIMIT_S = 30.0


def run(rank: Rank) -> None:
    rank.join()
    count = SMALL if rank.small else LARGE
    for elements in (5, count):
        dist.all_reduce(rank.device.full(elements, 1))  # what is done for the first time waits
        late_input(rank, elements)
        still_read(rank, elements)
    side_stream(rank, count)
    waited_for_elsewhere(rank, count)
    for turn in range(4 if rank.small else 30):
        in_flight(rank, turn)
    let_go(rank, count // 4)
    future(rank, count)
    completion(rank, count)
    threads(rank)
    dist.barrier()
    dist.destroy_process_group()


def total(rank: Rank) -> float:
    """Of the numbers of the ranks, counted from 1."""
    return rank.size * (rank.size + 1) / 2


def late(rank: Rank, tensor: torch.Tensor) -> None:
    """The rank's number is in the tensor once the stream has come to it."""
    rank.device.busy(LATE_S)
    rank.device.add(tensor, rank.number + 1)


def late_input(rank: Rank, count: int) -> None:
    tensor = rank.device.full(count, 0)
    rank.device.synchronize()
    late(rank, tensor)
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    rank.device.add(tensor, 1)
    rank.same(tensor, torch.full((count,), total(rank) + 1), "computed after the call", count)


def still_read(rank: Rank, count: int) -> None:
    """A message comes into a buffer that the stream has yet to read."""
    buffer, seen = rank.device.full(count, 9), rank.device.full(count, 0)
    rank.device.synchronize()
    if rank.number == 0:
        for peer in range(1, rank.size):
            dist.send(rank.device.full(count, 4), peer)
        return
    rank.device.busy(LATE_S)
    seen.copy_(buffer)
    dist.irecv(buffer, 0).wait()
    rank.device.add(buffer, 1)
    rank.same(seen, torch.full((count,), 9.0), "read before it was overwritten", count)
    rank.same(buffer, torch.full((count,), 5.0), "received after it was read", count)


def side_stream(rank: Rank, count: int) -> None:
    tensor = rank.device.full(count, 0)
    rank.device.synchronize()
    stream = rank.device.stream()
    with rank.device.on(stream):
        late(rank, tensor)
        dist.all_reduce(tensor)
        rank.device.add(tensor, 1)
        stream.synchronize()
        rank.same(tensor, torch.full((count,), total(rank) + 1), "all on a side stream")


def waited_for_elsewhere(rank: Rank, count: int) -> None:
    tensor = rank.device.full(count, 0)
    rank.device.synchronize()
    stream = rank.device.stream()
    late(rank, tensor)
    work = dist.all_reduce(tensor, async_op=True)
    with rank.device.on(stream):
        work.wait()
        rank.device.add(tensor, 1)
        stream.synchronize()
        rank.same(tensor, torch.full((count,), total(rank) + 1), "waited for on another stream")


def in_flight(rank: Rank, turn: int) -> None:
    """Two dozen at once; nobody keeps the tensors of every other one, whose memory is wanted again."""
    counts = [3, 1000, 70_000, 200_000] * (1 if rank.small else 3)
    works, results = [], []
    for place, count in enumerate(counts):
        tensor = rank.device.full(count, 0)
        rank.device.add(tensor, (rank.number + 1) * (place + 1))
        works.append(dist.all_reduce(tensor, async_op=True))
        dist.all_reduce(rank.device.full(count, 1), async_op=True)
        results.append(tensor)
        rank.device.full(count, float("nan"))
    for place, (work, result) in enumerate(zip(works, results, strict=True)):
        assert work is not None
        work.wait()
        expected = torch.full((counts[place],), total(rank) * (place + 1))
        rank.same(result, expected, "one of many in flight", turn, place)


def let_go(rank: Rank, count: int) -> None:
    """Outputs that nobody keeps are written to no memory that others have by then."""
    for _ in range(5):
        dist.all_gather_into_tensor(
            rank.device.put(torch.empty(rank.size * count)),
            rank.device.full(count, 1),
            async_op=True,
        ).wait()
        kept = rank.device.full(rank.size * count, 5)
        rank.same(
            kept, torch.full((rank.size * count,), 5.0), "memory of an output that was let go"
        )


def future(rank: Rank, count: int) -> None:
    tensor = rank.device.full(count, 0)
    late(rank, tensor)

    def plus_one(done: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
        result = done.value()[0]
        rank.device.add(result, 1)
        return result

    result = dist.all_reduce(tensor, async_op=True).get_future().then(plus_one).wait()
    rank.same(result, torch.full((count,), total(rank) + 1), "what follows a future")


def completion(rank: Rank, count: int) -> None:
    work = dist.all_reduce(rank.device.full(count, 1), async_op=True)
    assert work is not None
    work.wait()
    rank.device.synchronize()
    rank.expect(work.is_completed(), "not complete after the device was")


def threads(rank: Rank) -> None:
    groups = [dist.new_group() for _ in range(THREADS)]
    errors: list[str] = []

    def calls(group: dist.ProcessGroup, first: int) -> None:
        try:
            with rank.device.on(rank.device.stream()):
                for value in range(first, first + CALLS_OF_A_THREAD):
                    tensor = rank.device.full(50_000, value)
                    dist.all_reduce(tensor, group=group)
                    if tensor[0].item() != rank.size * value:
                        errors.append(f"{tensor[0].item()}, not {rank.size * value}")
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")

    running = [
        threading.Thread(target=calls, args=(group, 10 * place), daemon=True)
        for place, group in enumerate(groups)
    ]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(THREADS_LIMIT_S)
    rank.expect(not errors, "threads with groups and streams of their own:", errors[:3])
    hanging = sum(thread.is_alive() for thread in running)
    rank.expect(hanging == 0, f"{hanging} threads have not ended in {THREADS_LIMIT_S:g} s")
