# SPDX-License-Identifier: Apache-2.0
"""The doctor's search for the largest payload that gets through."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from rocecoll.diagnosis.pairs.mtu_search import MtuSearch

pytestmark = pytest.mark.quick

LEAST = 1172


def search(most: int, limit: int, lost: Collection[int] = ()) -> tuple[int, int]:
    """The size found where `limit` bytes get through, and the number of tries.

    `lost` are the tries, counted from 0, of which every copy is lost.
    """
    one, tries = MtuSearch(LEAST, most), 0
    while not one.done:
        assert LEAST <= one.size_bytes <= most
        one.hear(one.size_bytes <= limit and tries not in lost)
        tries += 1
        assert tries < 50
    return one.works_bytes, tries


def test_what_the_route_takes_is_asked_for_first() -> None:
    assert search(65507, 65507) == (65507, 1)
    assert search(LEAST, LEAST) == (LEAST, 1)


@pytest.mark.parametrize("limit", [LEAST, LEAST + 1, 1472, 8972, 65505, 65506])
def test_smaller_limits_are_found(limit: int) -> None:
    found, tries = search(65507, limit)
    assert found == limit
    assert tries <= 20


def test_nothing_gets_through() -> None:
    assert search(1472, LEAST - 1)[0] == 0


@pytest.mark.parametrize("limit", [65507, 1472, 9000])
@pytest.mark.parametrize("first", [0, *range(2, 17)])  # the second try asks for the smallest size
def test_a_lost_packet_is_no_limit(first: int, limit: int) -> None:
    assert search(65507, limit, [first])[0] == limit
