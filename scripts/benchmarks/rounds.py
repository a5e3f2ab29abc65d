# SPDX-License-Identifier: Apache-2.0
"""Runs in a guest: blocks of rocecoll and of the others in turn; rounds.py TRANSPORT ROUNDS.

Writes the times of each block as a line of JSON to $SOFTROCE_OUT/blocks.jsonl. A block starts new
processes, runs all sizes, and is checked for traffic on the wire.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import cases, openmpi, perftest, perftest_latency
from benchmarks.cases import ALL_REDUCE, PING_PONG, STREAM, Transport

LIMIT_S = 120.0
ORDER = ("rocecoll", "other", "other", "rocecoll")
Block = Callable[[Transport], dict[int, float]]


def bytes_on_wire() -> int:
    interfaces = os.environ["SOFTROCE_INTERFACES"].split()
    counters = [Path("/sys/class/net", name, "statistics/tx_bytes") for name in interfaces]
    return sum(int(counter.read_text()) for counter in counters)


def rocecoll_ranks(case: str, transport: Transport) -> list[dict[str, Any]]:
    devices = os.environ["SOFTROCE_DEVICES"].split()
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.rocecoll_rank", str(rank), case],
            env={
                **os.environ,
                "ROCECOLL_TRANSPORT": transport.value,
                "ROCECOLL_IB_HCA": f"={devices[rank]}",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    try:
        addresses = [rank.stdout.readline().strip() for rank in ranks if rank.stdout]
        if not all(addresses):
            raise RuntimeError("rocecoll does not start (see above)")
        line = json.dumps(addresses) + "\n"
        for rank in ranks:
            if rank.stdin:
                rank.stdin.write(line)
                rank.stdin.flush()
        texts = [rank.communicate(timeout=LIMIT_S)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    if any(rank.returncode != 0 for rank in ranks):
        raise RuntimeError(f"rocecoll failed: {[rank.returncode for rank in ranks]}")
    return [json.loads(text) for text in texts]


def rocecoll_stream(transport: Transport) -> dict[int, float]:
    sender = rocecoll_ranks(STREAM.name, transport)[0]
    return {int(size): cases.STREAM_BYTES / seconds for size, seconds in sender.items()}


def perftest_stream(transport: Transport) -> dict[int, float]:
    total = cases.STREAM_BYTES
    return {size: perftest.rate(transport, size, total) for size in STREAM.sizes_bytes}


def medians(seconds: dict[int, list[float]]) -> dict[int, float]:
    return {size: statistics.median(values) for size, values in seconds.items()}


def rocecoll_all_reduce(transport: Transport) -> dict[int, float]:
    return medians(openmpi.slowest(rocecoll_ranks(ALL_REDUCE.name, transport)))


def openmpi_all_reduce(transport: Transport) -> dict[int, float]:
    return medians(openmpi.seconds_of_calls(transport))


def rocecoll_ping_pong(transport: Transport) -> dict[int, float]:
    first = rocecoll_ranks(PING_PONG.name, transport)[0]
    return {int(size): statistics.median(seconds) / 2 for size, seconds in first.items()}


def perftest_ping_pong(transport: Transport) -> dict[int, float]:
    return {
        size: perftest_latency.one_way_seconds(transport, size, cases.ROUND_TRIPS)
        for size in PING_PONG.sizes_bytes
    }


BLOCKS: dict[tuple[str, str], Block] = {
    (STREAM.name, "rocecoll"): rocecoll_stream,
    (STREAM.name, "other"): perftest_stream,
    (ALL_REDUCE.name, "rocecoll"): rocecoll_all_reduce,
    (ALL_REDUCE.name, "other"): openmpi_all_reduce,
    (PING_PONG.name, "rocecoll"): rocecoll_ping_pong,
    (PING_PONG.name, "other"): perftest_ping_pong,
}


def least_bytes(case: str) -> int:
    """The least bytes that a block has to send, both ranks together."""
    if case == STREAM.name:
        return len(STREAM.sizes_bytes) * cases.STREAM_BYTES
    if case == PING_PONG.name:
        return sum(2 * size * cases.ROUND_TRIPS for size in PING_PONG.sizes_bytes)
    return sum(2 * size * cases.all_reduce_calls(size) for size in ALL_REDUCE.sizes_bytes)


def run_block(case: str, side: str, transport: Transport) -> dict[int, float]:
    before = bytes_on_wire()
    values = BLOCKS[case, side](transport)
    sent, least = bytes_on_wire() - before, least_bytes(case)
    if sent < least:
        raise RuntimeError(f"{case}, {side}: of {least} bytes only {sent} were sent over the wire")
    return values


def cases_here() -> tuple[cases.Case, ...]:
    if not (reason := perftest_latency.why_not()):
        return cases.CASES
    print(f"{PING_PONG.name}: left out: {reason}", file=sys.stderr, flush=True)
    return tuple(case for case in cases.CASES if case != PING_PONG)


def main(transport: Transport, rounds: int) -> None:
    measured = cases_here()
    with Path(os.environ["SOFTROCE_OUT"], "blocks.jsonl").open("w") as file:
        file.write(json.dumps({"kernel": platform.release()}) + "\n")
        for number in range(rounds):
            for case in measured:
                for side in ORDER:
                    values = run_block(case.name, side, transport)
                    line = {"case": case.name, "side": side, "values": values}
                    file.write(json.dumps(line) + "\n")
                    file.flush()
            print(f"round {number + 1} of {rounds} done", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(Transport(sys.argv[1]), int(sys.argv[2]))
