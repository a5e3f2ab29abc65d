# SPDX-License-Identifier: Apache-2.0
"""Every collective once, with inputs that every rank can make for every other.

Inputs are small whole numbers, so that sums are exact in every type and a result must equal numpy's
in every bit, whatever the order of the additions.
"""

from __future__ import annotations

import numpy as np
from job import Rank

LIMIT_S = 200.0
DTYPES = ("int32", "float64", "uint8", "float32", "int64")


def values(rank: int, size: int, dtype: str) -> np.ndarray:
    return ((np.arange(size) * 7 + 3 * rank) % 13 + rank).astype(dtype)


def check_every_collective(rank: Rank, size: int) -> None:
    """`size` elements of a block; the type goes with the size."""
    dtype, count, me = DTYPES[size % len(DTYPES)], rank.size, rank.number
    everyone = [values(r, size, dtype) for r in range(count)]
    mine, whole, root = everyone[me], np.concatenate(everyone), count - 1
    group = rank.group

    def same(actual: np.ndarray, expected: np.ndarray) -> None:
        assert actual.tobytes() == expected.astype(dtype).tobytes()

    total = np.sum(everyone, axis=0)
    reduced = mine.copy()
    group.all_reduce(reduced, dtype).wait(LIMIT_S)
    same(reduced, total)
    output = np.zeros(size, dtype)
    group.all_reduce(mine, dtype, "MAX", output).wait(LIMIT_S)
    same(output, np.max(everyone, axis=0))
    group.reduce(mine, dtype, root, output=output if me == root else None).wait(LIMIT_S)
    same(output, total if me == root else np.max(everyone, axis=0))
    block = np.zeros(size, dtype)
    group.reduce_scatter(whole, block, dtype).wait(LIMIT_S)
    same(block, everyone[me] * count)
    sent = mine.copy() if me == root else np.zeros(size, dtype)
    group.broadcast(sent, dtype, root).wait(LIMIT_S)
    same(sent, everyone[root])
    gathered = np.zeros(size * count, dtype)
    group.all_gather(mine, gathered, dtype).wait(LIMIT_S)
    same(gathered, whole)
    gathered = np.zeros(size * count, dtype)
    group.gather(mine, gathered if me == root else None, dtype, root).wait(LIMIT_S)
    same(gathered, whole if me == root else np.zeros(size * count))
    group.scatter(whole if me == root else None, block, dtype, root).wait(LIMIT_S)
    same(block, mine)
    exchanged = np.zeros(size * count, dtype)
    group.all_to_all(np.tile(mine, count), exchanged, dtype).wait(LIMIT_S)
    same(exchanged, whole)
    received = np.zeros(size, dtype)
    ring = [
        group.recv(received, dtype, (me - 1) % count),
        group.send(mine, dtype, (me + 1) % count),
    ]
    assert all(operation.wait(LIMIT_S) for operation in ring)
    same(received, everyone[(me - 1) % count])
    group.barrier().wait(LIMIT_S)


def check_blocks_of_different_sizes(rank: Rank) -> None:
    count, me = rank.size, rank.number
    counts = [(3 * r) % 5 * 1001 for r in range(count)]  # rank 0 has nothing
    gathered = np.zeros(sum(counts), np.int32)
    rank.group.all_gather(np.full(counts[me], me, np.int32), gathered, "int32", counts).wait(
        LIMIT_S
    )
    assert (gathered == np.repeat(np.arange(count), counts)).all()
    to = [(me + r) * 777 for r in range(count)]
    received = np.zeros(sum(to), np.int32)
    sent = np.repeat(np.arange(count, dtype=np.int32) * 10 + me, to)
    rank.group.all_to_all(sent, received, "int32", to, to).wait(LIMIT_S)
    assert (received == np.repeat(me * 10 + np.arange(count), to)).all()
