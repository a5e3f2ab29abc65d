# SPDX-License-Identifier: Apache-2.0
"""The two ranks of core_ranks.py in one process, which forks: a child uses the group, or just ends.

The parent prints what each child wrote and its exit status, then uses the group itself.
"""

from __future__ import annotations

import array
import os
import sys
from collections.abc import Callable

from core_ranks import LIMIT_S, two_ranks

from rocecoll import _core as core


def sums(groups: list[core.Group]) -> list[list[float]]:
    buffers = [array.array("f", [rank + 1.0] * 4) for rank in range(2)]
    works = [
        group.all_reduce(buffer, "float32") for group, buffer in zip(groups, buffers, strict=True)
    ]
    for work in works:
        assert work.wait(LIMIT_S)
    return [buffer.tolist() for buffer in buffers]


def error_of(call: Callable[[], object]) -> str:
    try:
        call()
    except core.AbortedError as error:
        return "refused" if "forked" in str(error) else str(error)
    return "nothing was raised"


def use_all(runtime: core.Runtime, group: core.Group, pending: core.Operation) -> None:
    calls: dict[str, Callable[[], object]] = {
        "all_reduce": lambda: group.all_reduce(array.array("f", [100.0] * 4), "float32"),
        "wait": lambda: pending.wait(LIMIT_S),
        "status": lambda: group.status,
        "abort": group.abort,
        "set_timeout": lambda: group.set_timeout(1.0),
        "shutdown": runtime.shutdown,
        "stats": runtime.stats,
        "peer_stats": runtime.peer_stats,
        "address": lambda: runtime.address,
    }
    for name, call in calls.items():
        print(f"{name}: {error_of(call)}")
    group.close()


def main() -> None:
    runtimes, groups = two_ranks()
    sums(groups)
    received = array.array("f", [0.0])
    pending = groups[0].recv(received, "float32", 1)
    for what in ("use it", "just end", "drop it", "begin anew"):
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            if what == "use it":
                use_all(runtimes[0], groups[0], pending)
            elif what == "drop it":
                del pending, groups, runtimes
            elif what == "begin anew":
                main_again = core.Runtime()
                alone = core.Group(main_again, "alone", bytes(16), 0, [main_again.address], LIMIT_S)
                assert alone.barrier().wait(LIMIT_S)
            sys.exit(0)
        print(f"{what}: {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}")
    print(sums(groups))
    groups[1].send(array.array("f", [3.0]), "float32", 0)
    assert pending.wait(LIMIT_S) and received.tolist() == [3.0]


main()
