# SPDX-License-Identifier: Apache-2.0
"""rocecoll.init(): the place among its peers that whoever started this process gave it."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rocecoll import options

TORCH_PORT = 29500  # torchrun's default
# Where no port is given, one that the ranks of a job agree on, below the ephemeral ports of Linux.
FIRST_PORT, PORTS = 20000, 12000


@dataclass(frozen=True)
class Place:
    """`init_method` is where the ranks meet; `local_rank` is None where the launcher has none."""

    launcher: str
    rank: int
    size: int
    local_rank: int | None
    init_method: str


@dataclass(frozen=True)
class _Launcher:
    """The variables of one launcher. `job` are those that differ between its jobs."""

    name: str
    rank: str
    size: str
    local_rank: str
    local_size: str
    job: tuple[str, ...]
    hosts: tuple[str, ...] = ()  # whose first host runs rank 0


_OPEN_MPI = _Launcher(
    "Open MPI",
    rank="OMPI_COMM_WORLD_RANK",
    size="OMPI_COMM_WORLD_SIZE",
    local_rank="OMPI_COMM_WORLD_LOCAL_RANK",
    local_size="OMPI_COMM_WORLD_LOCAL_SIZE",
    job=("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
)
_PMI = _Launcher(
    "PMI",
    rank="PMI_RANK",
    size="PMI_SIZE",
    local_rank="MPI_LOCALRANKID",
    local_size="MPI_LOCALNRANKS",
    job=(),
)
_SLURM = _Launcher(
    "Slurm",
    rank="SLURM_PROCID",
    size="SLURM_NTASKS",
    local_rank="SLURM_LOCALID",
    local_size="",
    job=("SLURM_JOB_ID", "SLURM_STEP_ID"),
    hosts=("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"),
)


def init(backend: str = "rocecoll", **details: Any) -> Place:
    """`init_process_group(backend, **details)` with rank, size and meeting point of the launcher.

    Knows torchrun and everybody who sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, then Open
    MPI's mpirun, launchers that speak PMI, and Slurm's srun.
    """
    import torch.distributed as dist

    place = find_place(options.launcher_variables())
    if "store" not in details:
        details.setdefault("init_method", place.init_method)
    dist.init_process_group(backend, rank=place.rank, world_size=place.size, **details)
    return place


def find_place(variables: Mapping[str, str]) -> Place:
    """Raises RuntimeError where the variables say too little."""
    if "RANK" in variables and "WORLD_SIZE" in variables:
        rank, size = int(variables["RANK"]), int(variables["WORLD_SIZE"])
        return Place("torch", rank, size, _number(variables, "LOCAL_RANK"), "env://")
    for launcher in (_OPEN_MPI, _PMI, _SLURM):
        if launcher.rank in variables and launcher.size in variables:
            rank, size = int(variables[launcher.rank]), int(variables[launcher.size])
            local_rank = _number(variables, launcher.local_rank)
            return Place(launcher.name, rank, size, local_rank, _meet(variables, launcher, size))
    raise RuntimeError(
        "rocecoll.init() found no launcher: start the program with torchrun, mpirun or srun, or "
        "set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"
    )


def _meet(variables: Mapping[str, str], launcher: _Launcher, size: int) -> str:
    host = variables.get("MASTER_ADDR")
    if not host:
        hosts = [variables[name] for name in launcher.hosts if variables.get(name)]
        if hosts:
            host = first_host(hosts[0])
        elif _number(variables, launcher.local_size) == size:
            host = "127.0.0.1"
        else:
            raise RuntimeError(
                f"rocecoll.init(): {launcher.name} does not say where rank 0 runs: set MASTER_ADDR "
                "to its host, the same for all ranks"
            )
    port = variables.get("MASTER_PORT") or _job_port(variables, launcher)
    return f"tcp://{f'[{host}]' if ':' in host else host}:{port}"


def _job_port(variables: Mapping[str, str], launcher: _Launcher) -> int:
    job = [variables[name] for name in launcher.job if name in variables]
    return FIRST_PORT + zlib.crc32(".".join(job).encode()) % PORTS if job else TORCH_PORT


def _number(variables: Mapping[str, str], name: str) -> int | None:
    value = variables.get(name, "")
    return int(value) if value.isdigit() else None


def first_host(hosts: str) -> str:
    """Of a list as Slurm writes it: "gpu[07-09,12],login1" starts with gpu07."""
    return re.sub(r"\[([^\],-]+)[^\]]*\]", r"\1", hosts).partition(",")[0]
