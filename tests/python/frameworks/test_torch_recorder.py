# SPDX-License-Identifier: Apache-2.0
"""torch's own flight recorder, which torch 2.15 attaches to our groups: it learns what has succeeded, and only that."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from epochs import everyone, next_uuid, run
from torch._C import _distributed_c10d
from waiting import wait_until

pytestmark = [
    pytest.mark.quick,
    pytest.mark.skipif(torch.__version__ < "2.15", reason="before torch 2.15 it is for NCCL"),
]
c10d: Any = _distributed_c10d  # its interface is younger than the torch that mypy sees


def recorded() -> list[tuple[str, str]]:
    """Name and state of each call."""
    told = json.loads(c10d._dump_fr_trace_json(True, False, "rocecoll"))
    return [
        (one["profiling_name"].removeprefix("rocecoll:").split(" ")[0], one["state"])
        for one in told["entries"]
    ]


def complete() -> bool:
    """A call may return a moment before torch has been told."""
    return all(state == "completed" for _, state in recorded())


def call() -> list[tuple[str, str]]:
    c10d._reset_fr_trace("rocecoll")
    peer = 1 - dist.get_rank()
    dist.all_reduce(torch.ones(3))
    dist.broadcast(torch.ones(0), 1, async_op=True).wait()
    if peer:
        dist.send(torch.ones(2), peer)
    else:
        dist.recv(torch.ones(2), peer)
    dist.barrier()
    wait_until(complete, "torch to know that all calls are complete")
    return recorded()


def test_sees_calls_complete(own_pool) -> None:
    with own_pool(2) as pool:
        for rank, told in enumerate(run(everyone(pool), call)):
            message = "recv" if rank else "send"
            assert [name for name, _ in told] == ["all_reduce", "broadcast", message, "barrier"]


def call_alone(dump: str) -> str:
    """Until a rank has died: the state of the call that it left out."""
    with pytest.raises(dist.DistBackendError, match="rank 1"):
        dist.all_reduce(torch.ones(3))
    wait_until(Path(dump).exists, "the dump")
    [*_, (name, state)] = recorded()
    assert name == "all_reduce"
    return state


def test_dumps_when_a_rank_dies_and_leaves_the_failed_call_open(own_pool, tmp_path) -> None:
    with own_pool(2, TORCH_FR_DUMP_TEMP_FILE=str(tmp_path / "rank_")) as pool:
        first, dead = everyone(pool)
        run([first, dead], call)
        os.kill(pool.process(1).pid, signal.SIGKILL)
        assert run([first], call_alone, str(tmp_path / "rank_0")) == ["scheduled"]


def begin_empty() -> None:
    dist.destroy_process_group()
    c10d_dist: Any = dist
    c10d_dist.init_process_group(
        "rocecoll", store=dist.HashStore(), rank=0, world_size=1, enable_reconfigure=True
    )
    uuid, handle = next(next_uuid), c10d_dist._get_reconfigure_handle()
    c10d_dist._reconfigure(uuid, [handle]).wait()
    c10d._reset_fr_trace("rocecoll")
    dist.all_reduce(torch.ones(1))
    wait_until(complete, "torch to know that all calls are complete")
    assert [name for name, _ in recorded()] == ["all_reduce"]


def test_goes_on_in_a_reconfigured_group(own_pool) -> None:
    with own_pool(1) as pool:
        run(everyone(pool), begin_empty)
