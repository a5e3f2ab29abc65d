# SPDX-License-Identifier: Apache-2.0
"""Operations of ranks whose results show what went astray."""

from __future__ import annotations

import numpy as np
from job import Rank

MORE_ROUNDS = 5


def add_up(rank: Rank, elements: int = 300_001, turn: int = 0) -> None:
    """The numbers differ by place, so that a part that lands elsewhere shows."""
    places = np.arange(elements, dtype=np.int32) % 1009 + turn
    data = places * (rank.number + 1)
    assert rank.group.all_reduce(data, "int32").wait()
    assert (data == places * (rank.size * (rank.size + 1) // 2)).all()


def any_asked(rank: Rank) -> bool:
    """Whether the test has asked some rank: the same on all."""
    word = np.array([rank.asked()], np.int32)
    assert rank.group.all_reduce(word, "int32", "MAX").wait()
    return bool(word[0])


def add_up_until_asked(rank: Rank) -> int:
    """All ranks do the same number of rounds; after the word of the test MORE_ROUNDS follow."""
    rounds, left = 0, -1
    while left != 0:
        add_up(rank)
        asked = any_asked(rank)
        left = left - 1 if left > 0 else MORE_ROUNDS if asked else -1
        rounds += 1
        if rounds == 2:
            rank.tell("begun")
    return rounds


def add_up_in_a_new_group(rank: Rank) -> None:
    """Whose links have to find their way anew. It is the rank's group from then on."""
    rank.group.close()
    rank.group = rank.make_group(bytes(16))
    add_up(rank)
    assert rank.group.barrier().wait()
