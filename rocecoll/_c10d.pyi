# SPDX-License-Identifier: Apache-2.0
from datetime import timedelta

import torch.distributed

class Runtime:
    """The process's socket, engine and progress thread."""

    def __init__(self, settings: dict[str, str]) -> None: ...
    @property
    def address(self) -> str: ...
    @property
    def has_groups(self) -> bool: ...
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
