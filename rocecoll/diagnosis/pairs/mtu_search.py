# SPDX-License-Identifier: Apache-2.0
"""The search for the largest payload that gets through to a peer."""

from __future__ import annotations


class MtuSearch:
    """Bisection between `least_bytes`, which always works, and `most_bytes`, which the route allows.

    Until `done`, send `size_bytes` and tell hear() whether it got through. A packet may also be lost
    for other reasons, so the smallest size that did not get through is tried again.
    """

    def __init__(self, least_bytes: int, most_bytes: int) -> None:
        self._low, self._high, self._most = least_bytes, most_bytes, most_bytes
        self._tried_again = False
        self.size_bytes = most_bytes
        self.works_bytes = 0
        self.done = False

    def hear(self, passed: bool) -> None:
        if passed:
            self.works_bytes = self.size_bytes
            self._low = self.size_bytes + 1
        else:
            self._high = self.size_bytes - 1
        if self._low <= self._high:  # the least first, then halves
            self.size_bytes = (self._low + self._high) // 2 if self.works_bytes else self._low
        elif 0 < self.works_bytes < self._most and not self._tried_again:
            self._tried_again = True
            self.size_bytes, self._high = self._low, self._most
        else:
            self.done = True
