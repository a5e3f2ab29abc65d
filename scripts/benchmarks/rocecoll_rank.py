# SPDX-License-Identifier: Apache-2.0
"""One of two ranks of rocecoll, timed: rocecoll_rank.py RANK CASE.

Says its address on stdout, reads both on stdin, then writes {bytes: seconds} as JSON: of the whole
stream, of each all_reduce, or of each round trip. Its memory stays registered, as perftest's does, and as
UCX keeps in mind what it has registered.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque

import numpy as np

from benchmarks import cases
from benchmarks.timing import WARM_UP_CALLS, seconds_of_calls
from rocecoll.bench import machine
from rocecoll.bench.sizes import MIB

# The core works without torch, whose import takes many seconds on an emulated processor.
sys.modules["torch"] = None  # type: ignore[assignment]
from rocecoll import _core as core  # noqa: E402
from rocecoll import options  # noqa: E402

LIMIT_S = 60.0
WINDOW_BYTES = 4 * MIB
# The last arguments of a call that returns when it is complete: the group's timeout, any algorithm, not
# asynchronous. By position: names are looked up each time.
COMPLETE = (0.0, "", False)


def start(rank: int) -> tuple[core.Runtime, core.Group]:
    """With the options that a user's process would have on this machine."""
    host = os.environ["SOFTROCE_ADDRESSES"].split()[rank]
    runtime = core.Runtime(options.runtime_settings(options.resolve(), host, local_ranks=2))
    print(runtime.address, flush=True)
    addresses = json.loads(sys.stdin.readline())
    return runtime, core.Group(runtime, "bench", b"rocecoll-bench--", rank, addresses, LIMIT_S)


def stream(group: core.Group, buffers: list[np.ndarray], messages: int) -> None:
    """Returns when both sides know that the last message has arrived."""
    pending: deque[core.Operation] = deque()
    transfer = group.send if group.rank == 0 else group.recv
    for message in range(messages):
        if len(pending) == len(buffers):
            pending.popleft().wait(LIMIT_S)
        buffer = buffers[message % len(buffers)]
        pending.append(transfer(buffer, "uint8", 1 - group.rank))
    for operation in pending:
        operation.wait(LIMIT_S)
    group.barrier().wait(LIMIT_S)


def seconds_of_stream(group: core.Group, size_bytes: int, messages: int) -> float:
    count = max(4, WINDOW_BYTES // size_bytes)
    buffers = [np.frombuffer(core.Memory(size_bytes), np.uint8) for _ in range(count)]
    for buffer in buffers:
        buffer.fill(1)
    stream(group, buffers, 2 * len(buffers))
    started = time.perf_counter()
    stream(group, buffers, messages)
    return time.perf_counter() - started


def seconds_of_round_trips(group: core.Group, size_bytes: int) -> list[float]:
    message = np.frombuffer(core.Memory(size_bytes), np.uint8)
    message.fill(1)
    turns = (group.send, group.recv) if group.rank == 0 else (group.recv, group.send)
    seconds = []
    for _ in range(WARM_UP_CALLS + cases.ROUND_TRIPS):
        started = time.perf_counter()
        for transfer in turns:
            transfer(message, "uint8", 1 - group.rank, 0, *COMPLETE)
        seconds.append(time.perf_counter() - started)
    return seconds[WARM_UP_CALLS:]


def measure(case: str, group: core.Group) -> dict[int, object]:
    if case == cases.STREAM.name:
        return {
            size: seconds_of_stream(group, size, cases.STREAM_BYTES // size)
            for size in cases.STREAM.sizes_bytes
        }
    if case == cases.PING_PONG.name:
        return {size: seconds_of_round_trips(group, size) for size in cases.PING_PONG.sizes_bytes}

    def all_reduce(mine: np.ndarray, total: np.ndarray) -> None:
        group.all_reduce(mine, "float32", "SUM", total, 1.0, *COMPLETE)

    def barrier() -> None:
        group.barrier().wait(LIMIT_S)

    return {
        size: seconds_of_calls(all_reduce, barrier, size, cases.all_reduce_calls(size), core.Memory)
        for size in cases.ALL_REDUCE.sizes_bytes
    }


def main(rank: int, case: str) -> None:
    runtime, group = start(rank)
    machine.stay_on_a_core(rank)
    print(json.dumps(measure(case, group)), flush=True)
    group.barrier().wait(LIMIT_S)  # nobody leaves before the other is done
    group.close()
    runtime.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
