# SPDX-License-Identifier: Apache-2.0
"""Where nobody has set a transport: RoCE where it works, UDP without a fuss where it does not."""

from __future__ import annotations

import multiprocessing
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import bed
import numpy as np
import pytest
from core_alone import core, options
from job import Job, Outcome, Rank, drain_log

GROUPS = 4
NOBODY = 65534
_fork = multiprocessing.get_context("fork")


def sum_in_groups(rank: Rank) -> None:
    """In several, one after the other: each has links of its own."""
    for number in range(GROUPS):
        group = rank.make_group(bytes([number]) * 16)
        data = np.full(100_001, rank.number + 1, np.int32)
        assert group.all_reduce(data, "int32").wait()
        assert (data == rank.size * (rank.size + 1) // 2).all()
        group.barrier().wait()
        group.close()


def outcomes_of(job: Job) -> list[Outcome]:
    with job:
        job.values()
        found = job.outcomes()
    for outcome in found:
        assert not outcome.warnings(), outcome.log
    return found


def test_devices_that_are_named_are_used() -> None:
    for outcome in outcomes_of(Job(2, sum_in_groups, None)):
        assert outcome.said("info", "ranks ", "RoCE, reliable connection over "), outcome.log
        assert not outcome.said("info", "UDP: "), outcome.log


def test_soft_roce_is_not_taken_by_itself() -> None:
    for outcome in outcomes_of(Job(2, sum_in_groups, None, variables={"ROCECOLL_IB_HCA": ""})):
        [why] = [text for _, text in outcome.log if "RoCE" in text]
        assert why.startswith("no RoCE in this process, only UDP: no port of an RDMA device is")
        assert "is Soft-RoCE" in why and "\n" not in why


def test_a_network_that_does_not_carry_roce_is_told_of_once() -> None:
    with bed.netem("loss 100%"):
        found = outcomes_of(Job(2, sum_in_groups, None))
    for outcome in found:
        [why] = [text for _, text in outcome.log if text.startswith("ranks ")]
        assert "): UDP: " in why, outcome.log


@contextmanager
def no_permission() -> Iterator[None]:
    """On the devices, for who is not root."""
    modes = {path: path.stat().st_mode for path in Path("/dev/infiniband").glob("uverbs*")}
    assert modes
    for path in modes:
        path.chmod(0o600)
    try:
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def log_of_nobody(variable: str, memlock_bytes: int = -1) -> list[tuple[str, str]]:
    """What a process says at its start whose user may do nothing; `variable` names a device."""
    end = bed.ends()[0]
    here, there = _fork.Pipe()

    def start() -> None:
        os.environ[variable] = f"={end.device}"
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (memlock_bytes, memlock_bytes))
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        runtime = core.Runtime(options.runtime_settings(options.resolve(), end.address, 1))
        there.send(drain_log())
        runtime.shutdown()

    process = _fork.Process(target=start, daemon=True)
    process.start()
    there.close()
    try:
        log: list[tuple[str, str]] = here.recv()  # EOFError: it could not start
    finally:
        process.join(bed.DEADLINE_S)
        process.kill()
    return log


@pytest.mark.parametrize("variable", ["NCCL_IB_HCA", "ROCECOLL_IB_HCA"])
@pytest.mark.parametrize(
    ("trouble", "memlock_bytes", "reason", "refuses_to_work"),
    [
        (no_permission, -1, "permission on /dev/infiniband/uverbs*", False),
        (nullcontext, 1 << 20, "this process may lock 1024 KiB of memory, RoCE takes", True),
    ],
    ids=["no permission", "little memory may be locked"],
)
def test_a_process_that_may_not_use_its_device_says_so_in_a_line(
    variable: str,
    trouble: Callable[[], AbstractContextManager[None]],
    memlock_bytes: int,
    reason: str,
    refuses_to_work: bool,
) -> None:
    with trouble():
        log = log_of_nobody(variable, memlock_bytes)
    [(severity, why)] = [entry for entry in log if "no RoCE" in entry[1]]
    assert why.startswith("no RoCE in this process, only UDP: ") and reason in why
    assert "\n" not in why
    asked_for = variable.startswith("ROCECOLL_")
    assert severity == ("warning" if refuses_to_work and asked_for else "info")
    assert all(level == "info" for level, text in log if text != why), log
