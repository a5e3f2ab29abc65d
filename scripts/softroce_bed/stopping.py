# SPDX-License-Identifier: Apache-2.0
"""Turns the signals that ask this program to end into an exception, so that it can clean up."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StoppedError(Exception):
    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_status = 128 + number


@contextmanager
def signals_raise() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise StoppedError(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
