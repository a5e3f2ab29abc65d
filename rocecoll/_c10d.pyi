# SPDX-License-Identifier: Apache-2.0
from datetime import timedelta
from typing import TypedDict

import torch.distributed

class Runtime:
    """The process's socket, engine and progress thread."""

    def __init__(self, settings: dict[str, str]) -> None: ...
    @property
    def address(self) -> str: ...
    @property
    def has_groups(self) -> bool: ...
    def failed_groups(self) -> int: ...
    def stats(self) -> dict[str, int]: ...
    def shutdown(self, limit: timedelta) -> None: ...

class Backend(torch.distributed.distributed_c10d.Backend): ...

def make_backend(
    *,
    runtime: Runtime,
    name: str,
    key: bytes,
    rank: int,
    addresses: list[str],
    global_ranks: list[int],
    timeout: timedelta,
    algorithms: dict[str, str],
) -> Backend: ...

class Frame(TypedDict):
    name: str
    filename: str
    line: int

class Call(TypedDict):
    """One recorded call (csrc/torch/recorder.h); ranks are group ranks unless called global."""

    id: int
    op: str
    group: str
    description: str
    global_ranks: list[int]
    group_rank: int
    point_to_point: bool
    sequence: int
    batch: int
    inputs: list[tuple[list[int], str, str]]  # sizes, dtype, device
    outputs: list[tuple[list[int], str, str]]
    bytes: int
    root: int | None
    tag: int | None
    reduce_op: str
    input_splits: list[int]
    output_splits: list[int]
    algorithm: str
    asynchronous: bool
    timeout_ms: int
    thread_id: int
    thread_name: str
    enqueued_ns: int  # since 1970
    started_ns: int | None
    ended_ns: int | None
    error: str
    frames: list[Frame]  # innermost first

def start_recording(capacity: int) -> int:
    """Returns the id of the next call. Nests; the ring holds the largest capacity asked for."""

def stop_recording() -> None: ...
def recorded_calls(first: int) -> tuple[list[Call], int]:
    """The calls from id `first` on, and how many of them fell out of the ring."""
