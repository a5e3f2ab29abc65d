# SPDX-License-Identifier: Apache-2.0
"""torchfrtrace reads our dumps, and finds the rank that left out a call."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from epochs import attempt, check_exchanges, everyone, in_order, join, run
from launch import PROGRAMS, environment, run_programs
from waiting import wait_until

import rocecoll
from rocecoll.flight_recorder import Evidence


def call_everything(prefix: str) -> None:
    """What differs between the ranks here may differ, and must not be called a mismatch."""
    rank, size = dist.get_rank(), dist.get_world_size()
    group = dist.group.WORLD
    with rocecoll.trace():
        dist.all_reduce(torch.zeros(4))
        dist.all_reduce(torch.ones(3).to_sparse())
        dist.all_reduce_coalesced([torch.zeros(2), torch.zeros(3)])
        dist.broadcast(torch.zeros(2, 2), 1)
        dist.reduce(torch.zeros(5), size - 1)
        blocks = list(torch.zeros(size, 3).unbind())
        dist.all_gather(blocks, torch.zeros(3))
        dist.all_gather_into_tensor(torch.zeros(size * 2), torch.zeros(2))
        dist.gather(torch.zeros(3), blocks if rank == 0 else None)
        dist.scatter(torch.zeros(3), blocks if rank == 0 else None)
        dist.reduce_scatter(torch.zeros(3), blocks)
        uneven = [torch.zeros(1 + index) for index in range(size)]
        group.reduce_scatter(torch.zeros(1 + rank), uneven).wait()
        dist.reduce_scatter_tensor(torch.zeros(2), torch.zeros(2 * size))
        dist.all_to_all(blocks, list(torch.zeros(size, 3).unbind()))
        splits = list(range(1, size + 1))
        received, sent = torch.zeros(sum(splits)), torch.zeros(size * splits[rank])
        dist.all_to_all_single(received, sent, splits, [splits[rank]] * size)
        dist.barrier()
        dist.group.WORLD.monitored_barrier()
        for source in ((rank - 1) % size, None):  # around the ring
            sending = dist.isend(torch.zeros(2), (rank + 1) % size, tag=3)
            dist.recv(torch.zeros(2), source, tag=3)
            sending.wait()
        dist.all_reduce(torch.zeros(1))
        rocecoll.dump_flight_recorder(prefix)


def analyse(directory: Path, prefix: str) -> Any:
    """torchfrtrace's own database of the dumps."""
    from torch.distributed.flight_recorder.fr_trace import main

    database = directory / "database"
    try:
        main([str(directory), "--prefix", prefix, "--output", str(database)])
    finally:
        gc.enable()  # the tool turns it off
    return pickle.loads(database.read_bytes())[1]


@pytest.mark.quick
def test_tool_pairs_every_kind_of_call(shared_pool, tmp_path: Path) -> None:
    shared_pool(3).run(call_everything, str(tmp_path / "rank"))
    found = analyse(tmp_path, "rank")
    assert all(call.pass_check and not call.missing_ranks for call in found.collectives)
    entries = pickle.loads((tmp_path / "rank1").read_bytes())["entries"]
    collectives = [entry for entry in entries if not entry["is_p2p"]]
    assert len(entries) == len(collectives) + 4
    assert {entry["state"] for entry in entries} == {"completed"}
    # Each collective once, and each of the ring's messages once.
    assert len(found.collectives) == len(collectives) + 2 * 3
    assert collectives[0]["profiling_name"] == "gloo:all_reduce"
    assert collectives[0]["frames"][0]["name"] == "all_reduce"


def test_failure_dumps_and_the_tool_names_the_missing_rank(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3"]
    [result] = run_programs(
        [[*command, str(PROGRAMS / "missing_call.py")]],
        [environment(ROCECOLL_FLIGHT_RECORDER=str(tmp_path / "dumps" / "rank_"))],
    )
    assert result.returncode != 0 and "timed out" in result.stdout
    dumps = sorted(path.name for path in (tmp_path / "dumps").iterdir())
    assert dumps == ["rank_0", "rank_1", "rank_2"], result.stdout
    assert_tool_names_the_last_rank(tmp_path / "dumps", "missing_call.py")


def assert_tool_names_the_last_rank(dumps: Path, program: str) -> None:
    """Of three, which left out the all_reduce."""
    analysis = subprocess.run(
        [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", dumps],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=300,
    )
    shown = analysis.stdout + analysis.stderr
    assert analysis.returncode == 0, shown
    assert "Not all ranks joining collective, sequence number: 2" in shown
    assert "missing ranks: {2}" in shown and "collective: gloo:all_reduce" in shown
    assert f"{program}:" in shown, "the tool shows who made the call"


def test_dumps_of_a_failure_stay_as_they_are(tmp_path: Path) -> None:
    """Whatever the ranks do later: make the call that was missing, go on, end in good order."""
    dumps = tmp_path / "dumps"
    command = [sys.executable, str(PROGRAMS / "late_call.py"), str(tmp_path)]
    ranks = [
        environment(RANK=str(rank), WORLD_SIZE="3", ROCECOLL_FLIGHT_RECORDER=str(dumps / "rank_"))
        for rank in range(3)
    ]
    for rank, result in enumerate(run_programs([command] * 3, ranks)):
        assert result.returncode == 0, result.stdout
        digest = hashlib.sha256((dumps / f"rank_{rank}").read_bytes()).hexdigest()
        assert f"digest {digest}\n" in result.stdout, "it was written again"
    assert_tool_names_the_last_rank(dumps, "late_call.py")


@pytest.mark.quick
def test_the_first_failure_of_each_incident_is_dumped() -> None:
    evidence = Evidence()
    for failed_groups, failures, dumped in (
        (0, 0, False),
        (1, 1, True),
        (1, 1, False),
        (2, 2, False),  # another group, as a consequence
        (1, 2, False),
        (0, 2, False),  # all destroyed: the incident is over
        (1, 3, True),
        (0, 3, False),
        (0, 4, True),  # failed and destroyed between two looks
        (0, 0, False),  # another runtime
        (1, 1, True),
    ):
        assert evidence.look(failed_groups, failures) == dumped, (failed_groups, failures)
    assert evidence.kept and not Evidence().kept


def call_a_failed_group(prefix: str) -> None:
    dist.all_reduce(torch.zeros(4))
    dist.group.WORLD.abort()
    with pytest.raises(dist.DistBackendError):
        dist.all_reduce(torch.zeros(4))
    rocecoll.dump_flight_recorder(prefix)


@pytest.mark.quick
def test_a_refused_call_is_not_among_those_that_ranks_made(own_pool, tmp_path: Path) -> None:
    with own_pool(1, ROCECOLL_FLIGHT_RECORDER=str(tmp_path / "at_exit")) as pool:
        pool.run(call_a_failed_group, str(tmp_path / "rank"))
    entries = pickle.loads((tmp_path / "rank0").read_bytes())["entries"]
    assert [entry["collective_seq_id"] for entry in entries] == [1], entries


def tell_pid() -> int:
    return os.getpid()


def test_files_are_of_the_ranks_that_were_given_by_reconfigure(own_pool, tmp_path: Path) -> None:
    """Each process has begun alone, as rank 0."""
    with contextlib.ExitStack() as pools:
        processes = [
            one
            for _ in range(3)
            for one in everyone(
                pools.enter_context(own_pool(1, ROCECOLL_FLIGHT_RECORDER=f"{tmp_path}/rank"))
            )
        ]
        assert join(processes) == in_order(3)
        os.kill(run(processes[1:2], tell_pid)[0], signal.SIGKILL)
        attempt([processes[0], processes[2]], check_exchanges)
        wait_until(
            lambda: {one.name for one in tmp_path.iterdir()} == {"rank0", "rank2"}, "the dumps"
        )
