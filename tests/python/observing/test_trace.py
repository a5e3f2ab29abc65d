# SPDX-License-Identifier: Apache-2.0
"""What rocecoll shows of what happens: the recorder and torch.profiler's events."""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from launch import environment, run_programs
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import rocecoll

pytestmark = pytest.mark.quick

Call = dict[str, Any]


def record(action: Callable[[], None]) -> list[Call]:
    with rocecoll.trace() as trace:
        action()
    assert trace.dropped == 0
    return [dict(call) for call in trace.calls]


def train_two_steps() -> None:
    """The first step finds the order of the gradients, in one bucket; the second one has several."""
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(16, 64), nn.Linear(64, 16)), bucket_cap_mb=0.001
    )
    for _ in range(2):
        model(torch.ones(2, 16)).sum().backward()


def test_ddp_step_shows_who_started_what(shared_pool) -> None:
    for calls in shared_pool(2).run(record, train_two_steps):
        initiators = [(call["op"], call["frames"][0]["name"]) for call in calls]
        assert ("rocecoll:broadcast", "_verify_param_shape_across_processes") in initiators
        assert ("rocecoll:broadcast", "_sync_params_and_buffers") in initiators
        buckets = [call for call in calls if call["op"] == "rocecoll:all_reduce"]
        gradients = 4 * (16 * 64 + 64 + 64 * 16 + 16)
        assert len(buckets) > 2 and buckets[0]["bytes"] == gradients
        assert sum(call["bytes"] for call in buckets[1:]) == gradients
        for call in buckets:
            names = [frame["name"] for frame in call["frames"]]
            assert names[0] == "_engine_run_backward" and "train_two_steps" in names
            [frame] = [frame for frame in call["frames"] if frame["name"] == "train_two_steps"]
            source = Path(__file__).read_text().splitlines()[frame["line"] - 1]
            assert frame["filename"] == __file__ and ".backward()" in source


def call_many_things() -> None:
    rank = dist.get_rank()
    dist.broadcast(torch.zeros(3, 2, dtype=torch.int16), 1)
    received = torch.zeros(2)
    if rank == 0:
        dist.send(torch.ones(2), 1, tag=7)
    elif rank == 1:
        dist.recv(received, 0, tag=7)
    splits = [1, 2, 3]
    mine = [splits[rank]] * 3
    dist.all_to_all_single(torch.zeros(6), torch.zeros(3 * splits[rank]), splits, mine)
    pair = dist.new_group([1, 2], group_desc="a pair")
    if rank:
        dist.reduce(torch.ones(5), 2, dist.ReduceOp.MAX, group=pair)
    dist.group.WORLD.monitored_barrier()
    if rank:
        dist.destroy_process_group(pair)


def test_records_say_what_was_called(shared_pool) -> None:
    results = shared_pool(3).run(record, call_many_things)
    for rank, calls in enumerate(results):
        by_op = {call["op"].removeprefix("rocecoll:"): call for call in calls}
        world = by_op["broadcast"]
        assert world["outputs"] == [([3, 2], "int16", "cpu")] and world["bytes"] == 12
        assert (world["root"], world["description"]) == (1, "default_pg")
        assert world["global_ranks"] == [0, 1, 2] and world["group_rank"] == rank
        shuffle = by_op["all_to_all"]
        assert shuffle["input_splits"] == [rank + 1] * 3
        assert shuffle["output_splits"] == [1, 2, 3]
        assert shuffle["sequence"] == world["sequence"] + 1, "messages are counted apart"
        assert "monitored_barrier" in by_op
        if rank:
            pair = by_op["reduce"]
            assert (pair["description"], pair["global_ranks"]) == ("a pair", [1, 2])
            assert (pair["root"], pair["reduce_op"], pair["sequence"]) == (1, "MAX", 1)
        for call in calls:
            assert not call["error"]
            assert call["enqueued_ns"] <= call["started_ns"] <= call["ended_ns"]
    [send] = [call for call in results[0] if call["point_to_point"]]
    [receive] = [call for call in results[1] if call["point_to_point"]]
    assert (send["op"], send["root"], send["tag"]) == ("rocecoll:send", 1, 7)
    assert (receive["op"], receive["root"], receive["tag"]) == ("rocecoll:recv", 0, 7)


def exchange_in_a_batch() -> None:
    other = 1 - dist.get_rank()
    received = torch.zeros(2)
    batch = [dist.P2POp(dist.isend, torch.ones(2), other), dist.P2POp(dist.irecv, received, other)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()


def test_calls_of_a_batch_share_its_number(shared_pool) -> None:
    for calls in shared_pool(2).run(record, exchange_in_a_batch):
        assert [call["op"] for call in calls] == ["rocecoll:send", "rocecoll:recv"]
        assert calls[0]["batch"] == calls[1]["batch"] > 0


def nest_and_overflow() -> tuple[list[int], int, str]:
    with rocecoll.trace(capacity=3) as outer:
        for size in range(1, 6):
            dist.all_reduce(torch.zeros(size))
        with pytest.raises(KeyError), rocecoll.trace(capacity=1) as inner:
            dist.all_reduce(torch.zeros(6))
            raise KeyError
    assert [call["bytes"] for call in inner.calls] == [24]
    dist.all_reduce(torch.zeros(1))
    with rocecoll.trace() as empty:
        pass
    assert (empty.calls, empty.dropped) == ([], 0)
    return [call["bytes"] for call in outer.calls], outer.dropped, outer.table()


def test_ring_keeps_the_newest_and_says_so(shared_pool) -> None:
    for rank, (sizes, dropped, table) in enumerate(shared_pool(2).run(nest_and_overflow)):
        assert (sizes, dropped) == ([16, 20, 24], 3)
        assert table.startswith(
            f"rocecoll: rank {rank} made 3 calls, and 3 before them that the trace"
        )


def reduce_in_threads() -> tuple[str, str]:
    """An asynchronous operation, one that overlaps it, and one of a thread without a caller."""
    tensors = [torch.ones(1000), torch.ones(10), torch.ones(1)]
    with tempfile.TemporaryDirectory() as directory, rocecoll.trace(Path(directory) / "t") as trace:
        works = []
        for tensor in tensors[:2]:
            works.append(dist.all_reduce(tensor, async_op=True))
        thread = threading.Thread(target=dist.all_reduce, args=(tensors[2],), name="helper")
        thread.start()
        thread.join()
        for work in works:
            work.wait()
    return trace.chrome(), trace.table()


def test_chrome_trace_and_table(shared_pool) -> None:
    for rank, (chrome, table) in enumerate(shared_pool(2).run(reduce_in_threads)):
        events = json.loads(chrome)["traceEvents"]
        calls = [event for event in events if event["ph"] == "X"]
        assert {event["pid"] for event in events} == {rank}
        assert [call["name"] for call in calls] == ["all_reduce"] * 3
        assert [call["args"]["inputs"] for call in calls] == [
            [f"float32 [{size}] cpu"] for size in (1000, 10, 1)
        ]
        names = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
        for track in names:
            on_track = [(call["ts"], call["dur"]) for call in calls if call["tid"] == track]
            for (begin, duration), (after, _) in itertools.pairwise(on_track):
                assert begin + duration <= after + 1, "events of one track must not overlap"
        for call in calls:
            assert call["dur"] > 0 and call["args"]["state"] == "completed"
            assert call["args"]["group"] == "0" and call["args"]["global_ranks"] == [0, 1]
            assert names[call["tid"]].startswith("default_pg (0)")
        here = calls[0]["args"]["initiator"]
        assert "test_trace.py:" in here and here.endswith(" reduce_in_threads")
        [row] = [line for line in table.splitlines() if "reduce_in_threads" in line]
        assert row.split()[:4] == ["all_reduce", "default_pg", "2", "4040"]


def trace_into(path: str) -> str | None:
    """The warning that writing gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with rocecoll.trace(path):
            dist.all_reduce(torch.zeros(1))
    return str(caught[0].message) if caught else None


def test_rank_goes_into_the_path(shared_pool, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    for name in ("plain.json", "%r-of.json", "new/{rank}", "here", "there/"):
        assert shared_pool(2).run(trace_into, f"{tmp_path}/{name}") == [None, None]
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    inside = {f"{name}/trace.{rank}.json" for name in ("here", "there") for rank in range(2)}
    plain = {"plain.0.json", "plain.1.json", "0-of.json", "1-of.json", "new/0", "new/1"}
    assert files == plain | inside
    for path in files:
        assert json.loads((tmp_path / path).read_text())["traceEvents"]


def test_unwritable_path_is_a_warning(shared_pool, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    warned = shared_pool(2).run(trace_into, str(tmp_path / "file" / "trace.json"))
    for rank, text in enumerate(warned):
        path = tmp_path / "file" / f"trace.{rank}.json"
        assert text in (
            f"rocecoll could not write {path}: Not a directory",
            f"rocecoll could not write {path}: File exists",
        )


ALONE = """
import torch
import torch.distributed as dist
import rocecoll
dist.init_process_group("rocecoll", store=dist.HashStore(), rank=0, world_size=1)
dist.all_reduce(torch.ones(3))
dist.new_group([0])
"""


def test_variable_traces_the_whole_program(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ALONE]
    (tmp_path / "file").touch()
    paths = [str(tmp_path / "trace.json"), str(tmp_path / "file" / "trace.json")]
    environments = [environment(ROCECOLL_TRACE=path) for path in paths]
    written, refused = run_programs([command] * 2, environments)
    for result in (written, refused):
        assert result.returncode == 0, result.stdout
        assert "rocecoll: rank 0 made 1 calls" in result.stdout
    assert "could not write" not in written.stdout
    assert "could not write" in refused.stdout and "Traceback" not in refused.stdout
    events = json.loads((tmp_path / "trace.0.json").read_text())["traceEvents"]
    assert [event["args"]["bytes"] for event in events if event["ph"] == "X"] == [12]


def profile() -> list[dict[str, Any]]:
    tensor = torch.ones(4, dtype=torch.float64)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, record_shapes=True) as profiler:
        dist.all_reduce(tensor)
        dist.broadcast(tensor, 1)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "profile.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    return [event["args"] for event in events if event["name"] == "record_param_comms"]


def test_profiler_shows_size_and_group(shared_pool) -> None:
    for reduced, sent in shared_pool(2).run(profile):
        assert reduced["Collective name"] == "all_reduce"
        assert reduced["In msg nelems"] == reduced["Out msg nelems"] == 4
        assert reduced["dtype"] == "Double"
        assert reduced["Process Group Description"] == "default_pg"
        assert reduced["Process Group Ranks"] == "[0, 1]" and reduced["Group size"] == 2
        assert sent["Collective name"] == "broadcast" and sent["Rank"] == 1
        assert sent["Seq"] == reduced["Seq"] + 1
