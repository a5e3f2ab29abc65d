# SPDX-License-Identifier: Apache-2.0
"""Waiting for events of which nothing notifies a test."""

import time
from collections.abc import Callable

LIMIT_S = 300  # reached only in a test that fails


def wait_until(condition: Callable[[], bool], what: str, limit_s: float = LIMIT_S) -> None:
    """Waits until `condition` holds. Raises AssertionError if it does not within `limit_s`."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what}"
        time.sleep(0.01)
