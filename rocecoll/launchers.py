# SPDX-License-Identifier: Apache-2.0
"""rocecoll.init(): the place among its peers that whoever started this process gave it."""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rocecoll import options

TORCH_PORT = 29500  # torchrun's default
# Where no port is given, one that the ranks of a job agree on, below the ephemeral ports of Linux.
FIRST_PORT, PORTS = 20000, 12000


@dataclass(frozen=True)
class Place:
    """`init_method` is where the ranks meet, None if there is but one; `local_rank` is None where
    the launcher has none.
    """

    launcher: str
    rank: int
    size: int
    local_rank: int | None
    init_method: str | None


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
    job=("PMI_JOBID", "PALS_APID", "FLUX_JOB_ID"),
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


_LAUNCHERS = (_OPEN_MPI, _PMI, _SLURM)
_TORCH = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def init(backend: str = "rocecoll", **details: Any) -> Place:
    """`init_process_group(backend, **details)` with rank, size and meeting point of the launcher.

    Knows torchrun and everybody who sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, then Open
    MPI's mpirun, launchers that speak PMI, and Slurm's srun. Without any the process is a group of
    one.
    """
    import torch.distributed as dist
    from torch._C._distributed_c10d import HashStore

    variables = options.launcher_variables()
    place = find_place(variables)
    if "store" not in details and "init_method" not in details:
        if place.init_method is None:
            details["store"] = HashStore()  # which needs no port
        else:
            details["init_method"] = place.init_method
    if place.init_method is None:
        logging.getLogger("rocecoll").info(
            "rocecoll.init(): no launcher has started this process, so it is a group of one (rank 0 "
            "of 1); torchrun, mpirun or srun start several ranks"
        )
    try:
        dist.init_process_group(backend, rank=place.rank, world_size=place.size, **details)
    except dist.DistNetworkError as error:
        meeting_point = details.get("init_method")
        chosen = meeting_point == place.init_method and "MASTER_PORT" not in variables
        if not chosen or "EADDRINUSE" not in str(error):
            raise
        raise RuntimeError(
            f"rocecoll.init(): the port at which the ranks are to meet, {meeting_point}, is taken, "
            "perhaps by another job on this host: set MASTER_PORT to a free one, the same for all "
            "ranks"
        ) from error
    return place


def find_place(variables: Mapping[str, str]) -> Place:
    """Raises RuntimeError where the variables say something, but too little."""
    if "RANK" in variables and "WORLD_SIZE" in variables:
        rank, size = _needed(variables, "RANK"), _needed(variables, "WORLD_SIZE")
        return Place("torch", rank, size, _number(variables, "LOCAL_RANK"), "env://")
    for launcher in _LAUNCHERS:
        if launcher.rank not in variables or launcher.size not in variables:
            continue
        rank, size = _needed(variables, launcher.rank), _needed(variables, launcher.size)
        if launcher is _PMI and _is_srun(variables):
            continue
        local_rank = _number(variables, launcher.local_rank)
        return Place(launcher.name, rank, size, local_rank, _meet(variables, launcher, size))
    for needed in (_TORCH, *((launcher.rank, launcher.size) for launcher in _LAUNCHERS)):
        if any(name in variables for name in needed):
            raise RuntimeError(_incomplete(variables, needed))
    return Place("none", 0, 1, 0, None)


def _incomplete(variables: Mapping[str, str], needed: Sequence[str]) -> str:
    found = [name for name in needed if name in variables]
    missing = [name for name in needed if name not in variables]
    return (
        f"rocecoll.init(): {_are(found)} set, but {_are(missing)} not: start the program with "
        "torchrun, mpirun or srun, which set them all, or set them by hand; where none of them is "
        "set, the process is a group of one"
    )


def _are(names: Sequence[str]) -> str:
    return f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'}"


def _is_srun(variables: Mapping[str, str]) -> bool:
    """srun --mpi=pmi2 speaks PMI, too, but says where rank 0 runs only in variables of its own.

    Another launcher under Slurm, which has srun start its helpers, tells the local ranks itself.
    """
    same = variables.get(_PMI.rank) == variables.get(_SLURM.rank) and variables.get(
        _PMI.size
    ) == variables.get(_SLURM.size)
    return same and _PMI.local_size not in variables


def _meet(variables: Mapping[str, str], launcher: _Launcher, size: int) -> str:
    host = variables.get("MASTER_ADDR")
    one_host = _number(variables, launcher.local_size) == size
    if not host:
        hosts = [variables[name] for name in launcher.hosts if variables.get(name)]
        if hosts:
            host = first_host(hosts[0])
        elif one_host:
            host = "127.0.0.1"
        else:
            raise RuntimeError(
                f"rocecoll.init(): {launcher.name} does not say where rank 0 runs: set MASTER_ADDR "
                "to its host, the same for all ranks"
            )
    port = variables.get("MASTER_PORT") or _job_port(variables, launcher, one_host)
    return f"tcp://{f'[{host}]' if ':' in host else host}:{port}"


def _job_port(variables: Mapping[str, str], launcher: _Launcher, one_host: bool) -> int:
    """From what the ranks of a job have in common, and other jobs on their hosts have not."""
    job = [variables[name] for name in launcher.job if name in variables]
    if one_host and not job and (starter := options.starter(launcher.rank)):
        job = [str(starter)]
    return FIRST_PORT + zlib.crc32(".".join(job).encode()) % PORTS if job else TORCH_PORT


def _needed(variables: Mapping[str, str], name: str) -> int:
    number = _number(variables, name)
    if number is None:
        raise RuntimeError(f"rocecoll.init(): {name}={variables[name]!r}: accepted is a number")
    return number


def _number(variables: Mapping[str, str], name: str) -> int | None:
    value = variables.get(name, "")
    return int(value) if value.isdigit() else None


def first_host(hosts: str) -> str:
    """Of a list as Slurm writes it: "gpu[07-09,12],login1" starts with gpu07."""
    return re.sub(r"\[([^\],-]+)[^\]]*\]", r"\1", hosts).partition(",")[0]
