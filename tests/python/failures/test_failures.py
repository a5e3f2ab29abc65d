# SPDX-License-Identifier: Apache-2.0
"""A rank that is late, dead or has left: the others get an error that names it, and in time."""

from __future__ import annotations

import os
import re
import signal
import time
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist
from harness import Outcome, Pool

from rocecoll import _core as core

TIMEOUT_S = 3.0  # where it is to end the operation
PATIENCE_S = 1000.0  # where it is not to
ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+:\d+|\[[0-9a-f:.]+\]:\d+")


def operate(name: str) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    if name == "all_reduce":
        dist.all_reduce(torch.ones(10))
    elif name == "large all_reduce":
        dist.all_reduce(torch.ones(2_000_000))
    elif name == "barrier":
        dist.barrier()
    elif name == "all_gather":
        dist.all_gather_into_tensor(torch.empty(size * 5), torch.ones(5))
    elif name == "all_to_all":
        dist.all_to_all_single(torch.empty(size * 5), torch.ones(size * 5))
    elif name == "recv":
        dist.recv(torch.empty(5), (rank + 1) % size)


def warm_up() -> int:
    """Opens the links; returns the process id."""
    for name in ("all_reduce", "barrier", "all_gather", "all_to_all"):
        operate(name)
    return os.getpid()


def shorten_timeout() -> None:
    """After the start, which on a loaded machine takes longer than the timeout under test."""
    group = dist.distributed_c10d._get_default_group()
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=TIMEOUT_S), group)


OPERATIONS = ("all_reduce", "large all_reduce", "barrier", "all_gather", "all_to_all")


@pytest.mark.lossy
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(
    ("warm", "size"),
    [(True, 2), (True, 4), pytest.param(False, 2, marks=pytest.mark.nightly), (False, 4)],
    ids=["links open-2", "links open-4", "first operation-2", "first operation-4"],
)
def test_absent_rank(own_pool, name: str, size: int, warm: bool) -> None:
    """The last rank is alive but never calls: a timeout that names it."""
    absent = size - 1
    with own_pool(size) as pool:
        if warm:
            pool.run(warm_up)
        pool.run(shorten_timeout)
        present = [rank for rank in range(size) if rank != absent]
        outcomes = pool.attempt(operate, name, ranks=present)
        for outcome in outcomes:
            assert outcome.error, "finished without the absent rank"
            assert f"timed out after {TIMEOUT_S:g} s" in outcome.error, outcome.error
            assert name.split()[-1] in outcome.error, outcome.error
            # A rank that waits for a rank that is itself waiting has asked all others (an answer
            # may get lost).
            named = rf"(not called by|no answer from) [^;]*rank {absent} "
            assert re.search(named, outcome.error), outcome.error


@pytest.mark.quick
@pytest.mark.lossy
@pytest.mark.parametrize("size", [2, 3])
def test_recv_without_send(own_pool, size: int) -> None:
    with own_pool(size) as pool:
        pool.run(shorten_timeout)
        for rank, outcome in enumerate(pool.attempt(operate, "recv")):
            assert outcome.error and "recv" in outcome.error, outcome
            assert re.search(r"rank \d", outcome.error), (rank, outcome.error)


def short_timeout() -> None:
    """One operation has its own timeout, far below the group's."""
    work = dist.all_reduce(torch.ones(10), async_op=True)
    work.wait(timedelta(seconds=1))


@pytest.mark.quick
def test_timeout_of_one_wait(own_pool) -> None:
    with own_pool(2, timeout_s=PATIENCE_S) as pool:
        pool.run(warm_up)
        [outcome] = pool.attempt(short_timeout, ranks=[0])
        assert outcome.error and "time" in outcome.error.lower(), outcome


def kill_during(pool: Pool, victim: int, name: str) -> list[Outcome]:
    """kill -9 of one rank while all others wait for it in the operation."""
    survivors = [rank for rank in range(pool.size) if rank != victim]
    pool.send(operate, name, ranks=survivors)
    time.sleep(0.2)  # most of them are inside by then; the outcome must be the same if not
    pool.process(victim).kill()
    return pool.collect(survivors)


@pytest.mark.quick
@pytest.mark.lossy
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("size", [2, 4])
def test_killed_peer(own_pool, name: str, size: int) -> None:
    """The group's timeout is long: the death itself is what is noticed."""
    victim = size - 1
    with own_pool(size, timeout_s=PATIENCE_S) as pool:
        pool.run(warm_up)
        for outcome in kill_during(pool, victim, name):
            assert outcome.error, "finished without the dead rank"
            assert f"rank {victim}" in outcome.error, outcome.error
            assert ADDRESS.search(outcome.error), outcome.error
            assert name.split()[-1] in outcome.error, outcome.error


@pytest.mark.quick
def test_a_pause_of_all_ranks_is_no_silence(own_pool) -> None:
    """As in a container that is frozen or migrated: for longer than the peer timeout."""
    size = 3
    with own_pool(size, timeout_s=120, ROCECOLL_PEER_TIMEOUT="2") as pool:
        for _ in range(2):
            processes = pool.run(warm_up)
            for process in processes:
                os.kill(process, signal.SIGSTOP)
            time.sleep(5)  # what is tested: no rank runs for this long
            for process in processes:
                os.kill(process, signal.SIGCONT)
        pool.run(warm_up)


WAIT_S = 10


def all_reduce_within_a_wait(begun: Path | None) -> None:
    work = dist.all_reduce(torch.ones(10), async_op=True)
    if begun is not None:
        begun.touch()
    work.wait(timedelta(seconds=WAIT_S))


def test_a_pause_is_no_part_of_a_wait(own_pool, tmp_path: Path) -> None:
    """A rank is stopped for longer than its wait may last, and its peer comes soon after."""
    begun = tmp_path / "begun"
    with own_pool(2, timeout_s=PATIENCE_S, ROCECOLL_PEER_TIMEOUT="100") as pool:
        waiting, _ = pool.run(warm_up)
        pool.send(all_reduce_within_a_wait, begun, ranks=[0])
        deadline = time.monotonic() + PATIENCE_S
        while not begun.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(waiting, signal.SIGSTOP)
        time.sleep(WAIT_S + 2)  # what is tested: it does not run for this long
        os.kill(waiting, signal.SIGCONT)
        pool.send(all_reduce_within_a_wait, None, ranks=[1])
        for outcome in pool.collect([0, 1]):
            assert outcome.error is None, outcome


@pytest.mark.quick
def test_a_rank_frozen_before_first_contact(own_pool) -> None:
    """Its address is known, and nothing answers there: no need to wait for the timeout."""
    with own_pool(2, timeout_s=600, ROCECOLL_PEER_TIMEOUT="3") as pool:
        frozen = pool.process(1).pid
        assert frozen is not None
        os.kill(frozen, signal.SIGSTOP)
        try:
            [outcome] = pool.attempt(operate, "all_reduce", ranks=[0], limit_s=60)
        finally:
            os.kill(frozen, signal.SIGCONT)
        # It may have had just enough time to answer before it stopped.
        assert outcome.error and re.search("(no contact with|lost) rank 1 ", outcome.error), outcome


def own_port() -> int:
    [port] = [socket.laddr.port for socket in psutil.Process().net_connections("udp")]
    return port


@pytest.mark.quick
def test_a_rank_killed_before_first_contact_whose_port_another_process_has(own_pool) -> None:
    """The process that has the port lives and answers, but will never join the group."""
    with own_pool(2, timeout_s=600) as pool:
        [outcome] = pool.attempt(own_port, ranks=[1])
        pool.process(1).kill()
        pool.process(1).join()
        port = outcome.value
        other = core.Runtime({"port_range": (port, port)})
        try:
            [outcome] = pool.attempt(operate, "all_reduce", ranks=[0], limit_s=60)
        finally:
            other.shutdown()
        assert outcome.error and "lost rank 1 " in outcome.error, outcome
        assert "another process answers at its address" in outcome.error


def in_subgroup(members: list[int]) -> None:
    group = dist.new_group(members)
    if dist.get_rank() in members:
        dist.all_reduce(torch.ones(3), group=group)
        globals()["_subgroup"] = group


def operate_in_subgroup() -> None:
    dist.all_reduce(torch.ones(3), group=globals()["_subgroup"])


@pytest.mark.quick
def test_killed_peer_of_a_subgroup(own_pool) -> None:
    """The message has the rank's number in the world, and other groups go on working."""
    with own_pool(4, timeout_s=PATIENCE_S) as pool:
        pool.run(in_subgroup, [1, 3])
        pool.process(3).kill()
        [outcome] = pool.attempt(operate_in_subgroup, ranks=[1])
        assert outcome.error and "rank 3" in outcome.error, outcome
        outcomes = pool.attempt(pair_exchange, ranks=[0, 2])
        assert [outcome.error for outcome in outcomes] == [None, None]


def pair_exchange() -> None:
    peer = 2 - dist.get_rank()
    output = torch.empty(3)
    request = dist.isend(torch.ones(3), peer)
    dist.recv(output, peer)
    request.wait()


def leave() -> None:
    dist.destroy_process_group()


@pytest.mark.quick
def test_peer_that_left(own_pool) -> None:
    with own_pool(2, timeout_s=PATIENCE_S) as pool:
        pool.run(warm_up)
        pool.attempt(leave, ranks=[1])
        [outcome] = pool.attempt(operate, "all_reduce", ranks=[0])
        assert outcome.error and "rank 1" in outcome.error, outcome


def leave_after_sending() -> None:
    """The last message of a rank that leaves at once still arrives."""
    if dist.get_rank() == 0:
        dist.send(torch.full((100_000,), 3.0), 1)
        dist.destroy_process_group()
    else:
        output = torch.empty(100_000)
        dist.recv(output, 0)
        assert (output == 3).all()
        dist.destroy_process_group()


@pytest.mark.quick
@pytest.mark.lossy
def test_last_message_arrives(own_pool) -> None:
    for _ in range(3):
        with own_pool(2) as pool:
            pool.run(leave_after_sending)


def fail_then_join_again(directory: str) -> None:
    """A process whose group failed can leave it and take part in a new one."""
    rank, backend = dist.get_rank(), dist.get_backend()
    try:
        dist.all_reduce(torch.ones(10 + rank))
        raise AssertionError("sizes differ, and nobody noticed")
    except RuntimeError:
        dist.destroy_process_group()
    dist.init_process_group(
        backend,
        init_method=f"file://{directory}/second",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=200),
    )
    tensor = torch.ones(10)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [2.0] * 10


@pytest.mark.quick
def test_fail_then_join_again(own_pool, tmp_path) -> None:
    with own_pool(2) as pool:
        pool.run(fail_then_join_again, str(tmp_path))
