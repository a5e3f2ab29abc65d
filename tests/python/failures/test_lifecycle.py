# SPDX-License-Identifier: Apache-2.0
"""How processes and groups begin, end and begin again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from launch import PROGRAMS, environment, free_port, run_program, run_programs
from programs import hard_ends
from programs.exits import RANKS, WAYS
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

# If a rank comes after the other's process has ended, nothing is left that could tell it more.
GONE = re.compile("left the group|no process listens at its address")


class Exits:
    """What became of every rank of programs/exits.py, by way of ending."""

    def __init__(self, backend: str, directory: Path) -> None:
        command = [sys.executable, str(PROGRAMS / "exits.py"), backend, str(directory), *WAYS]
        # The end of an interpreter is what is tested, so they have their own.
        self.statuses: dict[str, list[int]] = json.loads(run_program(command, fresh=True))
        self._directory = directory

    def outputs(self, way: str) -> list[str]:
        return [(self._directory / f"{way}{rank}").read_text() for rank in range(RANKS)]


@pytest.fixture(scope="module")
def exits(backend: str, tmp_path_factory: pytest.TempPathFactory) -> Exits:
    return Exits(backend, tmp_path_factory.mktemp("exits"))


@pytest.mark.parametrize(
    "way",
    [
        "without_destroy",
        "with_groups_and_works_alive",
        "with_operations_pending",
        "with_a_thread_waiting_for_one_that_stays",
    ],
)
def test_end_without_destroy(exits: Exits, way: str) -> None:
    """No hang, no error, no noise."""
    assert exits.outputs(way) == [""] * RANKS
    assert exits.statuses[way] == [0] * RANKS


def test_end_beside_a_receive_from_any_rank(exits: Exits) -> None:
    """A rank whose interpreter ends has left the group, which others go on in."""
    way = "beside_a_receive_from_any_rank"
    assert exits.outputs(way) == ["", "received from rank 2\n", ""]
    assert exits.statuses[way] == [0] * RANKS


def test_end_with_a_thread_waiting(exits: Exits) -> None:
    """The thread gets an error if the others left long before; gloo aborts the process."""
    way = "with_a_thread_waiting"
    assert exits.statuses[way] == [0] * RANKS, exits.outputs(way)
    for output in exits.outputs(way):
        if "DistBackendError" in output:
            assert output.count("DistBackendError") == 1, output
        for noise in ("terminate called", "Fatal Python error", "Segmentation"):
            assert noise not in output, output


def test_destroy_with_operations_pending(exits: Exits) -> None:
    """wait() and the future give the reason: this rank's own destroy, or the peer that left."""
    way = "destroy_with_operations_pending"
    assert exits.statuses[way] == [0] * RANKS, exits.outputs(way)
    own, *others = exits.outputs(way)
    ended = "this rank ended the group before"
    assert own.count(f"recv #1 (from rank 1, tag 0, float32, 10 elements): {ended}") == 2, own
    for output in others:
        assert len(re.findall(r"rank 0 \([\d.]+:\d+\)", output)) == 2, output
        assert len(GONE.findall(output)) == 2, output


def test_end_by_exception(exits: Exits) -> None:
    """The others are told which rank is gone."""
    way = "by_exception"
    assert exits.statuses[way] == [0, 1, 0], exits.outputs(way)
    outputs = exits.outputs(way)
    assert outputs[1].endswith("ValueError: bad batch\n"), outputs[1]
    for output in (outputs[0], outputs[2]):
        assert "DistBackendError" in output, output
        assert re.search(r"rank 1 \([\d.]+:\d+\)", output), output
        assert GONE.search(output) and "all_reduce #" in output, output
        assert "; see rank 1's own log first: it may have raised an exception" in output, output


@pytest.mark.parametrize("shared_memory", ["1", "0"], ids=["shm", "udp"])
@pytest.mark.parametrize("way", ["exit_at_once", "destroy", "kill", "execute", "end_container"])
@pytest.mark.parametrize("operation", ["barrier", "sums", "send", "warm_send", "missed"])
def test_end_right_after_the_last_operation(
    backend: str, operation: str, way: str, shared_memory: str, tmp_path: Path
) -> None:
    """No rank fails because of one that has done its part, and what that one sent arrives. A rank
    that needs more of it is told."""
    if way == "end_container":
        tried = subprocess.run(
            ["unshare", "--pid", "--fork", "true"], capture_output=True, text=True
        )
        if tried.returncode != 0:
            pytest.skip(f"no PID namespaces here: {tried.stderr.strip()}")
    jobs = 3
    command = [sys.executable, str(PROGRAMS / "hard_ends.py"), backend, str(tmp_path)]
    (result,) = run_programs(
        [[*command, operation, way, str(jobs)]], [environment(ROCECOLL_SHM=shared_memory)]
    )
    status = -signal.SIGKILL if way == "kill" else 0
    statuses = json.loads(result.stdout.splitlines()[-1])
    assert statuses == [[status] * hard_ends.RANKS] * jobs, result.stdout


def test_end_while_a_buffer_is_released() -> None:
    run_program([sys.executable, str(PROGRAMS / "slow_release.py")], fresh=True)


@pytest.mark.parametrize("rendezvous", ["static", "c10d"])
def test_restart_after_a_killed_worker(backend: str, rendezvous: str, tmp_path: Path) -> None:
    """torchrun --max-restarts: static with one agent, c10d with two, of which one sees the kill."""
    agents, workers = (1, 2) if rendezvous == "static" else (2, 1)
    port = free_port()
    place = ["--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "restart"]
    if rendezvous == "static":
        place = ["--master-addr", "127.0.0.1", "--master-port", str(port)]
    command = [sys.executable, "-m", "torch.distributed.run", "--rdzv-backend", rendezvous]
    command += ["--nnodes", str(agents), "--nproc-per-node", str(workers), *place]
    command += ["--max-restarts", "2", str(PROGRAMS / "restart.py"), backend, str(tmp_path)]
    results = run_programs([command] * agents, [environment()] * agents)
    output = "".join(result.stdout for result in results)
    assert [result.returncode for result in results] == [0] * agents, output
    assert (tmp_path / "died").exists()
    done = re.findall(r"rank (\d) of 2: steps (\d+) to 10, sum (\d+)", output)
    assert sorted(done) == [("0", "5", "135"), ("1", "5", "135")], output


def count_resources() -> tuple[int, int]:
    """(open descriptors, threads) of this process."""
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def join(backend: str, url: str, rank: int, size: int) -> None:
    dist.init_process_group(
        backend, init_method=url, rank=rank, world_size=size, timeout=timedelta(seconds=200)
    )


def check_many_lives(backend: str, ports: list[int]) -> None:
    """Each life has another port, size and order of ranks. Later ones hold nothing more.

    Each process is rank 0 in one of the first three lives: libuv keeps a pipe in a process from
    when it first serves the store.
    """
    place = dist.get_rank()
    sizes = [1 + (turn + 1) % 3 for turn in range(len(ports))]  # 2, 3, 1, ...
    dist.destroy_process_group()
    held = []
    for turn, (size, port) in enumerate(zip(sizes, ports, strict=True)):
        rank = (place + turn + turn // 3) % 3
        if rank < size:
            join(backend, f"tcp://127.0.0.1:{port}", rank, size)
            tensor = torch.full((3000,), float(rank))
            dist.all_reduce(tensor)
            assert (tensor == sum(range(size))).all()
            dist.barrier()
            dist.destroy_process_group()
        held.append(count_resources())
        if turn < len(ports) // 2:
            continue
        descriptors, threads = (max(kind) for kind in zip(*held[: len(ports) // 2], strict=True))
        # The thread that releases objects starts with the first of them, if a life has any. It is
        # detached, and may take a while to end.
        deadline = time.monotonic() + 60
        while held[-1][0] > descriptors or held[-1][1] > threads + 1:
            assert time.monotonic() < deadline, held
            time.sleep(0.01)
            held[-1] = count_resources()


def test_many_lives(own_pool, backend: str) -> None:
    ports: list[int] = []
    while len(ports) < 24:
        ports += {free_port()} - set(ports)
    with own_pool(3) as pool:
        pool.run(check_many_lives, backend, ports)


def train(workers: int) -> list[torch.Tensor]:
    """Two epochs; a DataLoader forks its workers anew for each, from a process with a group."""
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(24, 4), torch.randn(24, 1))
    sampler = DistributedSampler(data, shuffle=True, seed=5)
    loader = DataLoader(
        data,
        batch_size=3,
        sampler=sampler,
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,
    )
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for inputs, targets in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


def check_forked_loader() -> None:
    alone, forked = train(0), train(2)
    for one, other in zip(alone, forked, strict=True):
        assert torch.equal(one, other)


def test_data_loader_with_forked_workers(shared_pool) -> None:
    shared_pool(2).run(check_forked_loader)


def check_destroy_beside_work() -> None:
    """Sub-groups end while the world and another sub-group have operations in flight."""
    rank, size = dist.get_rank(), dist.get_world_size()
    other = dist.new_group(list(range(size)))
    for turn in range(5):
        doomed = dist.new_group([0, 1])
        tensors = [torch.full((200_000,), float(rank + turn)) for _ in range(6)]
        works = [
            dist.all_reduce(tensor, group=group, async_op=True)
            for tensor, group in zip(tensors, [None, other] * 3, strict=True)
        ]
        if rank < 2:
            pending = dist.irecv(torch.empty(5), 1 - rank, group=doomed)
            dist.destroy_process_group(doomed)
            try:
                pending.wait()
                raise AssertionError("received what nobody sent")
            except dist.DistBackendError as error:
                assert "group" in str(error)
        for work in works:
            work.wait()
        for tensor in tensors:
            assert (tensor == sum(range(size)) + turn * size).all()
    dist.destroy_process_group(other)


def test_destroy_subgroup_while_others_work(shared_pool) -> None:
    shared_pool(3).run(check_destroy_beside_work)


def check_left_before_contact() -> None:
    """Nobody has a link of that group to the rank that left it; the world goes on."""
    rank = dist.get_rank()
    group = dist.new_group([0, 1])
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        dist.destroy_process_group(group)
        store.set("left", "")
    else:
        store.wait(["left"])
        try:
            dist.recv(torch.empty(4), 1, group=group)
            raise AssertionError("received what nobody sent")
        except dist.DistBackendError as error:
            assert re.search(
                r"recv #1 \(from rank 1, .*\): rank 1 \(.*\) left the group", str(error)
            ), error
    dist.barrier()


def test_rank_that_left_before_first_contact(own_pool) -> None:
    with own_pool(2) as pool:
        pool.run(check_left_before_contact)


def test_python_lock_held_for_long(tmp_path: Path) -> None:
    """Tensors of completed operations wait for the lock to be released; heartbeats do not."""
    program = str(PROGRAMS / "holds_python.py")
    command = [sys.executable, program, str(tmp_path / "store"), str(tmp_path)]
    environments = [environment(RANK=str(rank), ROCECOLL_PEER_TIMEOUT="4") for rank in range(2)]
    for result in run_programs([command, command], environments):
        assert result.returncode == 0, result.stdout
        assert result.stdout.splitlines()[-1] == "done", result.stdout
