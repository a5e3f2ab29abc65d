# SPDX-License-Identifier: Apache-2.0
"""Which accelerator a rank computes on, without asking its runtime: so that it takes a NIC beside it."""

from __future__ import annotations

from pathlib import Path

VISIBLE = "CUDA_VISIBLE_DEVICES"
# A directory for each GPU that this machine, or this container, has.
NVIDIA = Path("/proc/driver/nvidia/gpus")


def pci_address(visible: str | None, local_rank: int | None, listed: Path = NVIDIA) -> str:
    """Of the GPU with the number of the local rank, as programs take it; empty: not known.

    `visible` is what CUDA_VISIBLE_DEVICES says; of GPUs that are alike CUDA has the order of PCI.
    """
    try:
        gpus = sorted(entry.name for entry in listed.iterdir())
    except OSError:
        return ""
    own = list(range(len(gpus))) if visible is None else _numbers(visible)
    if len(own) == 1:
        number = own[0]
    elif local_rank is not None and local_rank < len(own):
        number = own[local_rank]
    else:
        return ""
    return gpus[number] if number < len(gpus) else ""


def _numbers(visible: str) -> list[int]:
    """None where the list has names (UUIDs, MIG devices) in it."""
    items = [item.strip() for item in visible.split(",")]
    return [int(item) for item in items] if all(item.isdigit() for item in items) else []
