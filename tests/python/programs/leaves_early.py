# SPDX-License-Identifier: Apache-2.0
"""The last rank ends, in good order, while its network is away; its last broadcast must arrive.

python leaves_early.py API INIT_METHOD INTERFACE SECONDS

API is "torch" or "core". The network is away for SECONDS.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist

import rocecoll  # noqa: F401  registers the backend
from rocecoll import _core
from rocecoll.host import interfaces

PATIENCE_S = 200
ELEMENTS = 100


def core_broadcast(rank: int, size: int, interface: str) -> Callable[[torch.Tensor, int], None]:
    """Of a group of the core's own, with a runtime that nobody shuts down."""
    runtime = _core.Runtime({"host": interfaces.choose_address(interface, "ipv4", None)})
    addresses: list[str] = [""] * size
    dist.all_gather_object(addresses, runtime.address)
    group = _core.Group(runtime, "core", bytes(16), rank, addresses, PATIENCE_S)

    def broadcast(tensor: torch.Tensor, root: int) -> None:
        assert group.broadcast(tensor.numpy(), "float32", root).wait()

    return broadcast


def unplug(interface: str, away_s: float) -> None:
    """The network comes back on its own, also after this process has ended."""
    subprocess.run(["ip", "link", "set", interface, "down"], check=True)
    again = ["sh", "-c", f"sleep {away_s} && ip link set {interface} up"]
    # Without our output, so that a reader of it does not wait for that process.
    subprocess.Popen(again, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main() -> None:
    api, init_method, interface, away_s = sys.argv[1:]
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    patience = timedelta(seconds=PATIENCE_S)
    dist.init_process_group(
        "rocecoll", init_method=init_method, rank=rank, world_size=size, timeout=patience
    )
    last = size - 1
    broadcast = core_broadcast(rank, size, interface) if api == "core" else dist.broadcast
    broadcast(torch.ones(ELEMENTS), last)
    dist.barrier()
    tensor = torch.full((ELEMENTS,), float(rank))
    if rank == last:
        unplug(interface, float(away_s))
    broadcast(tensor, last)
    assert bool((tensor == last).all())
    print("the last broadcast is complete", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
