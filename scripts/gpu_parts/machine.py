# SPDX-License-Identifier: Apache-2.0
"""What the results depend on: the GPU, its driver, torch and what came with it, the sources."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

import torch
from benchmarks.machine import commit

from rocecoll.bench.machine import facts

QUERY = (
    "name,memory.total,driver_version,compute_mode,pcie.link.gen.current,pcie.link.width.current"
)
LIMIT_S = 20


def device_there() -> str:
    """The kind to check when nobody says which."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def nccl_version() -> str:
    if not torch.distributed.is_nccl_available():
        return "not in this torch"
    return ".".join(map(str, torch.cuda.nccl.version()))


def smi(*arguments: str) -> str:
    """What nvidia-smi says, on one line."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return "no nvidia-smi"
    try:
        asked = subprocess.run(
            [program, *arguments, "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"nvidia-smi gave no answer in {LIMIT_S} s"
    return "; ".join((asked.stdout or asked.stderr).split("\n")).strip("; ")


def found(kind: str) -> dict[str, Any]:
    """In a process of its own: it may make a CUDA context."""
    about: dict[str, Any] = {"device": kind}
    if kind == "cuda":
        properties = torch.cuda.get_device_properties(0)
        about |= {
            "GPU": properties.name,
            "GPUs": torch.cuda.device_count(),
            "compute capability": f"{properties.major}.{properties.minor}",
            QUERY: smi(f"--query-gpu={QUERY}"),
            "CUDA of torch": str(torch.version.cuda),
            "NCCL": nccl_version(),
        }
    about |= {**facts(), "commit": commit()}
    for name in sorted(os.environ):
        if name.startswith(("ROCECOLL_", "NCCL_", "CUDA_")):
            about[name] = os.environ[name]
    return about
