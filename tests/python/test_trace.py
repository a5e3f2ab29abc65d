# SPDX-License-Identifier: Apache-2.0
"""What rocecoll shows of what happens: the recorder and torch.profiler's events."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

pytestmark = pytest.mark.quick

Call = dict[str, Any]


def record(action: Callable[[], None], capacity: int = 1000) -> list[Call]:
    from rocecoll import _c10d

    first = _c10d.start_recording(capacity)
    try:
        action()
        calls, _ = _c10d.recorded_calls(first)
    finally:
        _c10d.stop_recording()
    return calls


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


def overflow() -> tuple[list[int], int]:
    from rocecoll import _c10d

    outer = _c10d.start_recording(3)
    for size in range(1, 6):
        dist.all_reduce(torch.zeros(size))
    inner = _c10d.start_recording(1)
    dist.all_reduce(torch.zeros(6))
    calls, dropped = _c10d.recorded_calls(outer)
    assert [call["inputs"][0][0] for call in _c10d.recorded_calls(inner)[0]] == [[6]]
    _c10d.stop_recording()
    _c10d.stop_recording()
    assert _c10d.recorded_calls(0)[0] == [], "nothing is kept once nobody records"
    dist.all_reduce(torch.zeros(1))
    assert _c10d.recorded_calls(inner)[0] == []
    return [call["bytes"] for call in calls], dropped


def test_ring_keeps_the_newest(shared_pool) -> None:
    assert shared_pool(2).run(overflow) == [([16, 20, 24], 3)] * 2


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
