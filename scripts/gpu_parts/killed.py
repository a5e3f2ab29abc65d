# SPDX-License-Identifier: Apache-2.0
"""The last rank is killed in the middle of work: the others name it, and their device goes on."""

from __future__ import annotations

import os
import signal
import time

import torch
import torch.distributed as dist

from gpu_parts.rank import Rank

MIB = 1 << 20
BEFORE = 20  # rounds
NOTICE_LIMIT_S = 30.0
DESTROY_LIMIT_S = 20.0


def run(rank: Rank) -> None:
    rank.join()
    victim = rank.size - 1
    count = (1 if rank.small else 16) * MIB // 4
    for _ in range(BEFORE):
        dist.all_reduce(rank.device.full(count, 1))
    rank.device.synchronize()
    dist.barrier()
    if rank.number == victim:
        dist.all_reduce(rank.device.full(count, 1), async_op=True)
        os.kill(os.getpid(), signal.SIGKILL)
    error = noticed(rank, count)
    if error is None:
        return
    rank.tell("words", str(error).splitlines()[0][:300])
    named = isinstance(error, dist.DistBackendError) and f"rank {victim}" in str(error)
    rank.expect(named, f"no error that names rank {victim}:", type(error).__name__, error)
    try:
        dist.all_reduce(rank.device.full(3, 1))
        rank.fail("a group that has lost a rank went on working")
    except dist.DistBackendError:
        pass
    ones = rank.device.put(torch.ones(64, 64))
    rank.same(ones @ ones, torch.full((64, 64), 64.0), "the device after the death")
    begin = time.monotonic()
    dist.destroy_process_group()
    took = time.monotonic() - begin
    rank.expect(took < DESTROY_LIMIT_S, f"destroy_process_group took {took:.1f} s")


def noticed(rank: Rank, count: int) -> Exception | None:
    """The error of the first call that has one."""
    begin = time.monotonic()
    while time.monotonic() - begin < NOTICE_LIMIT_S:
        try:
            works = [dist.all_reduce(rank.device.full(count, 1), async_op=True) for _ in range(3)]
            for work in works:
                work.wait()
        except Exception as error:
            rank.tell("noticed after", f"{time.monotonic() - begin:.2f} s")
            return error
    rank.fail(f"nobody noticed the death in {NOTICE_LIMIT_S:g} s")
    return None
