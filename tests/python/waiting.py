# SPDX-License-Identifier: Apache-2.0
"""Waiting for what a test cannot be told of."""

import time
from collections.abc import Callable

LIMIT_S = 300  # so much only in a test that fails


def wait_until(condition: Callable[[], bool], what: str, limit_s: float = LIMIT_S) -> None:
    """Until `condition` holds; AssertionError after `limit_s` that it never did."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what}"
        time.sleep(0.01)
