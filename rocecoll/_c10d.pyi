# SPDX-License-Identifier: Apache-2.0
import os
from datetime import timedelta
from typing import Any, TypedDict

import torch._C._distributed_c10d
import torch.distributed

class Runtime:
    """The process's socket, engine and progress thread."""

    @property
    def address(self) -> str: ...
    @property
    def process(self) -> int: ...
    @property
    def settings(self) -> dict[str, Any]: ...
    @property
    def roce_port(self) -> str: ...
    @property
    def roce_problem(self) -> str: ...

def require_room_for_a_group() -> None: ...
def start_runtime(settings: dict[str, Any]) -> Runtime: ...
def shut_down(threads_may_stay: bool) -> None: ...

class Options(torch._C._distributed_c10d.Backend.Options):
    """What to pass as init_process_group(pg_options=...): Options(port_range="50000-50100").

    Options that are not given come from their variable ROCECOLL_<NAME>.
    """

    group_desc: str
    def __init__(
        self,
        *,  # options
        transport: str | os.PathLike[str] = ...,
        shm: bool | str | None = ...,
        socket_ifname: str | os.PathLike[str] = ...,
        socket_family: str | os.PathLike[str] = ...,
        port_range: tuple[int, int] | str = ...,
        udp_max_datagram_bytes: int | str = ...,
        udp_offload: bool | str = ...,
        socket_buffer_bytes: int | str = ...,
        dscp: int | str = ...,
        ecn: bool | str = ...,
        congestion: str | os.PathLike[str] = ...,
        fault: str | os.PathLike[str] = ...,
        peer_timeout: float | str | None = ...,
        spin_us: float | str | None = ...,
        eager_bytes: int | str = ...,
        lane_bytes: int | str = ...,
        staging_bytes: int | str = ...,
        algorithm: str | os.PathLike[str] = ...,
        trace: str | os.PathLike[str] = ...,
        flight_recorder: str | os.PathLike[str] = ...,
        ib_hca: str | os.PathLike[str] = ...,
        ib_gid_index: int | str | None = ...,
        ib_tc: int | str = ...,
        ib_sl: int | str = ...,
        ib_timeout: int | str = ...,
        ib_retry_cnt: int | str = ...,
        ib_pkey: int | str = ...,
        ib_mtu: int | str = ...,
        ib_qps_per_connection: int | str = ...,
        ib_ece: bool | str = ...,
        ib_adaptive_routing: bool | str = ...,
        failover: bool | str = ...,
    ) -> None: ...
    @property
    def values(self) -> dict[str, Any]: ...

class Backend(torch._C._distributed_c10d.Backend):
    @property
    def options(self) -> Options: ...
    def _set_default_timeout(self, timeout: timedelta) -> None: ...
    def prepare_staging(self, device: str) -> None: ...
    def split(
        self,
        store: torch._C._distributed_c10d.Store | None,
        ranks: list[int],
        options: Options | None = None,
    ) -> Backend | None: ...
    def perform_nocolor_split(self, device: object) -> None: ...
    def remade(
        self, *, name: str, key: bytes, rank: int, members: list[Member], timeout: timedelta
    ) -> Backend: ...
    # From torch 2.14 on.
    def await_members(self, rank: int, size: int) -> None: ...
    def adopt(self, made: Backend) -> None: ...

class Member:
    """A rank of a group: where this rank reaches it, and the address that messages show."""

    def __init__(
        self, *, address: str, process: int, roce: bool, known_as: str, host: int
    ) -> None: ...

def make_backend(
    *,
    runtime: Runtime,
    name: str,
    key: bytes,
    rank: int,
    members: list[Member],
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
