# SPDX-License-Identifier: Apache-2.0
"""Ends right after it has dropped its runtimes, while a buffer of rocecoll._core takes long to go.

The end of the interpreter takes longer than that.
"""

from __future__ import annotations

import sys
import threading
import time

from core_ranks import LIMIT_S, two_ranks

RELEASE_S = 0.5
END_S = 2.0


class Slow(bytearray):
    begun = threading.Event()

    def __del__(self) -> None:
        self.begun.set()
        time.sleep(RELEASE_S)


class AtTheEnd:
    sleep = staticmethod(time.sleep)

    def __del__(self) -> None:
        self.sleep(END_S)


def main() -> None:
    _runtimes, groups = two_ranks()
    groups[0].recv(Slow(4), "uint8", 1)  # nobody waits, so a thread of ours releases it
    groups[1].send(b"abcd", "uint8", 0)
    assert Slow.begun.wait(LIMIT_S)


sys.at_the_end = AtTheEnd()  # type: ignore[attr-defined]
main()
print("leaves", flush=True)
