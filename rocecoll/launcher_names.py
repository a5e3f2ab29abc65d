# SPDX-License-Identifier: Apache-2.0
"""The variables in which launchers tell a process its place. environment.py reads them."""

from __future__ import annotations

from dataclasses import dataclass

TORCH = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
TORCH_LOCAL_RANK, TORCH_LOCAL_SIZE = "LOCAL_RANK", "LOCAL_WORLD_SIZE"


@dataclass(frozen=True)
class Launcher:
    """The variables of one launcher. `job` are those that differ between its jobs."""

    name: str
    rank: str
    size: str
    local_rank: str
    local_size: str
    job: tuple[str, ...]
    hosts: tuple[str, ...] = ()  # whose first host runs rank 0


OPEN_MPI = Launcher(
    "Open MPI",
    rank="OMPI_COMM_WORLD_RANK",
    size="OMPI_COMM_WORLD_SIZE",
    local_rank="OMPI_COMM_WORLD_LOCAL_RANK",
    local_size="OMPI_COMM_WORLD_LOCAL_SIZE",
    job=("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
)
PMI = Launcher(
    "PMI",
    rank="PMI_RANK",
    size="PMI_SIZE",
    local_rank="MPI_LOCALRANKID",
    local_size="MPI_LOCALNRANKS",
    job=("PMI_JOBID", "PALS_APID", "FLUX_JOB_ID"),
)
SLURM = Launcher(
    "Slurm",
    rank="SLURM_PROCID",
    size="SLURM_NTASKS",
    local_rank="SLURM_LOCALID",
    local_size="",
    job=("SLURM_JOB_ID", "SLURM_STEP_ID"),
    hosts=("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"),
)

LAUNCHERS = (OPEN_MPI, PMI, SLURM)
LOCAL_RANKS = (TORCH_LOCAL_RANK, *(one.local_rank for one in LAUNCHERS))
LOCAL_SIZES = (TORCH_LOCAL_SIZE, *(one.local_size for one in LAUNCHERS if one.local_size))


def _names(launcher: Launcher) -> set[str]:
    own = {launcher.rank, launcher.size, launcher.local_rank, launcher.local_size}
    return (own | {*launcher.job, *launcher.hosts}) - {""}


# None of them is secret, as others of the same launchers may be.
PLACES = frozenset(
    {*TORCH, TORCH_LOCAL_RANK, TORCH_LOCAL_SIZE}.union(*(_names(one) for one in LAUNCHERS))
)
REPORTED = PLACES | {"GROUP_RANK", "TORCHELASTIC_RESTART_COUNT"}
