# SPDX-License-Identifier: Apache-2.0
"""Which accelerator a rank computes on, found without starting the accelerator's runtime.

The rank then takes a NIC near it and prepares to stage its tensors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

VISIBLE = "CUDA_VISIBLE_DEVICES"
# A directory for each GPU that this machine, or this container, has.
NVIDIA = Path("/proc/driver/nvidia/gpus")


def pci_address(visible: str | None, local_rank: int | None, listed: Path = NVIDIA) -> str:
    """The PCI address of the GPU numbered as the local rank, which programs use; empty: unknown.

    `visible` is the value of CUDA_VISIBLE_DEVICES. CUDA numbers GPUs of one model in PCI order.
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


def in_use(torch: Any) -> str | None:
    """The current device of the accelerator that the program has begun to use, such as "cuda:1"."""
    for name in ("cuda", "xpu", torch._C._get_privateuse1_backend_name()):
        module = getattr(torch, name, None)
        is_initialized = getattr(module, "is_initialized", None)
        if module is not None and is_initialized is not None and is_initialized():
            return f"{name}:{module.current_device()}"
    return None


def _numbers(visible: str) -> list[int]:
    """Empty if the list contains names (UUIDs, MIG devices)."""
    items = [item.strip() for item in visible.split(",")]
    return [int(item) for item in items] if all(item.isdigit() for item in items) else []
