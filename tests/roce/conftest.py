# SPDX-License-Identifier: Apache-2.0
"""These tests run inside a bed: ./scripts/softroce test (docs/softroce.md)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import bed
import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))
pytest_plugins = ["running"]


def pytest_addoption(parser: pytest.Parser) -> None:
    kills, cycles = (50, 1000) if bed.NIGHTLY else (6, 100)  # each rank of two and of three
    parser.addoption("--kills", type=int, default=kills, help="ranks to kill on each transport")
    parser.addoption("--cycles", type=int, default=cycles, help="links to open, use and close")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    outside = pytest.mark.skip(reason="not in a bed: run ./scripts/softroce test")
    for item in items:
        if not bed.ends():
            item.add_marker(outside)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Whatever a test did, its queue pairs, memory and devices' contexts are gone afterwards."""
    if not bed.ends():
        yield
        return
    before = bed.resource_counts()
    yield
    bed.wait_until(lambda: bed.resource_counts() == before, f"back to {before}")
    assert all(bed.is_active(end.device) for end in bed.ends())
