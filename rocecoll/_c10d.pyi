# SPDX-License-Identifier: Apache-2.0
from datetime import timedelta
from typing import Any, TypedDict

import torch._C._distributed_c10d
import torch.distributed

class Runtime:
    """The process's socket, engine and progress thread."""

    def __init__(self, settings: dict[str, Any]) -> None: ...
    @property
    def address(self) -> str: ...
    @property
    def process(self) -> int: ...
    def has_groups(self) -> bool: ...
    def failed_groups(self) -> int: ...
    def stats(self) -> dict[str, int]: ...
    def shutdown(self) -> None: ...

class Options(torch._C._distributed_c10d.Backend.Options):
    """What to pass as init_process_group(pg_options=...): Options(port_range="50000-50100").

    Options that are not given come from their variable ROCECOLL_<NAME>.
    """

    group_desc: str
    def __init__(self, **values: object) -> None: ...
    @property
    def values(self) -> dict[str, Any]: ...

class Backend(torch._C._distributed_c10d.Backend):
    @property
    def options(self) -> Options: ...
    def split(
        self,
        store: torch._C._distributed_c10d.Store | None,
        ranks: list[int],
        options: Options | None = None,
    ) -> Backend | None: ...
    def perform_nocolor_split(self, device: object) -> None: ...

def make_backend(
    *,
    runtime: Runtime,
    name: str,
    key: bytes,
    rank: int,
    addresses: list[str],
    processes: list[int],
    known_as: list[str],
    global_ranks: list[int],
    timeout: timedelta,
    algorithms: str,
    options: Options,
) -> Backend: ...

class Frame(TypedDict):
    name: str
    filename: str
    line: int

class Call(TypedDict):
    """One recorded call (csrc/torch/observing/recorder.h); group ranks unless called global."""

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

def make_process_group(
    *,
    store: torch._C._distributed_c10d.Store,
    backend: Backend,
    devices: list[str],
    bound_device: str | None,
) -> torch.distributed.ProcessGroup: ...
