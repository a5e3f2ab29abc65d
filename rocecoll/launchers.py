# SPDX-License-Identifier: Apache-2.0
"""rocecoll.init(): the place among its peers that the launcher gave this process."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rocecoll import environment, notes
from rocecoll.launcher_names import LAUNCHERS, PMI, SLURM, TORCH, TORCH_LOCAL_RANK, Launcher
from rocecoll.rendezvous import RendezvousError

NOBODY = "none"  # the launcher's name if there is none
TORCH_PORT = 29500  # torchrun's default
# Where no port is given, one that the ranks of a job agree on, below the ephemeral ports of Linux.
FIRST_PORT, PORTS = 20000, 12000


@dataclass(frozen=True)
class Place:
    """`init_method` is where the ranks meet, None if there is but one; `local_rank` is None where
    the launcher has none. Without `own_port` other jobs on these hosts meet at the same one.
    """

    launcher: str
    rank: int
    size: int
    local_rank: int | None
    init_method: str | None
    own_port: bool = True


def init(backend: str = "rocecoll", **details: Any) -> Place:
    """`init_process_group(backend, **details)` with rank, size and meeting point of the launcher.

    Knows torchrun and everybody who sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, then Open
    MPI's mpirun, launchers that speak PMI, and Slurm's srun. Without any the process is a group of
    one.
    """
    import torch.distributed as dist
    from torch._C._distributed_c10d import HashStore

    variables = environment.launcher_variables()
    place = find_place(variables)
    if "store" not in details and "init_method" not in details:
        if place.init_method is None:
            details["store"] = HashStore()  # which needs no port
        else:
            details["init_method"] = place.init_method
    if place.init_method is None:
        notes.logger.info(
            "rocecoll.init(): no launcher has started this process, so it is a group of one (rank 0 "
            "of 1); torchrun, mpirun or srun start several ranks"
        )
    try:
        dist.init_process_group(backend, rank=place.rank, world_size=place.size, **details)
    except (dist.DistError, RendezvousError) as error:
        meeting_point = details.get("init_method")
        if meeting_point != place.init_method or "MASTER_PORT" in variables:
            raise
        if told := _about_port(place, "EADDRINUSE" in str(error), str(error)):
            raise RuntimeError(told) from error
        raise
    return place


def _about_port(place: Place, taken: bool, error: str) -> str:
    """What to add to the error if the ranks did not meet at a port chosen here; empty if no help."""
    shared = ""
    if not place.own_port:
        [job] = [one.job for one in LAUNCHERS if one.name == place.launcher]
        shared = (
            f"; without {' or '.join(job)} {place.launcher} does not tell one job from another, so "
            f"all meet at port {TORCH_PORT}"
        )
    cure = "set MASTER_PORT to a free one, the same for all ranks"
    if taken:
        return (
            f"rocecoll.init(): the port at which the ranks are to meet, {place.init_method}, is "
            f"taken, perhaps by another job on this host{shared}: {cure}"
        )
    if not shared:
        return ""
    return (
        f"rocecoll.init(): the ranks did not meet at {place.init_method}{shared}, and ranks of "
        f"another one may be there: {cure} ({' '.join(error.split())})"
    )


def find_place(variables: Mapping[str, str]) -> Place:
    """Raises RuntimeError if the variables of a launcher are set only in part."""
    if "RANK" in variables and "WORLD_SIZE" in variables:
        rank, size = _needed(variables, "RANK"), _needed(variables, "WORLD_SIZE")
        return Place("torch", rank, size, _number(variables, TORCH_LOCAL_RANK), "env://")
    for launcher in LAUNCHERS:
        if launcher.rank not in variables or launcher.size not in variables:
            continue
        rank, size = _needed(variables, launcher.rank), _needed(variables, launcher.size)
        if launcher is PMI and _is_srun(variables):
            continue
        local_rank = _number(variables, launcher.local_rank)
        one_host = _number(variables, launcher.local_size) == size
        job = _job(variables, launcher, one_host)
        own_port = bool(job) or "MASTER_PORT" in variables
        init_method = _meet(variables, launcher, one_host, job)
        return Place(launcher.name, rank, size, local_rank, init_method, own_port)
    for needed in (TORCH, *((launcher.rank, launcher.size) for launcher in LAUNCHERS)):
        if any(name in variables for name in needed):
            raise RuntimeError(_incomplete(variables, needed))
    return Place(NOBODY, 0, 1, 0, None)


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
    """Whether srun itself started the ranks.

    `srun --mpi=pmi2` speaks PMI, too, but says where rank 0 runs only in Slurm's own variables.
    Other launchers under Slurm, whose helpers srun starts, set PMI's number of local ranks.
    """
    same = variables.get(PMI.rank) == variables.get(SLURM.rank) and variables.get(
        PMI.size
    ) == variables.get(SLURM.size)
    return same and PMI.local_size not in variables


def _meet(
    variables: Mapping[str, str], launcher: Launcher, one_host: bool, job: Sequence[str]
) -> str:
    host = variables.get("MASTER_ADDR")
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
    own = FIRST_PORT + zlib.crc32(".".join(job).encode()) % PORTS if job else TORCH_PORT
    port = variables.get("MASTER_PORT") or own
    return f"tcp://{f'[{host}]' if ':' in host else host}:{port}"


def _job(variables: Mapping[str, str], launcher: Launcher, one_host: bool) -> list[str]:
    """What the ranks of a job share and other jobs on their hosts do not; may be empty."""
    job = [variables[name] for name in launcher.job if name in variables]
    if one_host and not job and (starter := environment.starter(launcher.rank)):
        job = [str(starter)]
    return job


def _needed(variables: Mapping[str, str], name: str) -> int:
    number = _number(variables, name)
    if number is None:
        raise RuntimeError(f"rocecoll.init(): {name}={variables[name]!r}: accepted is a number")
    return number


def _number(variables: Mapping[str, str], name: str) -> int | None:
    value = variables.get(name, "")
    return int(value) if value.isdigit() else None


def first_host(hosts: str) -> str:
    """The first host of a list as Slurm writes it: "gpu[07-09,12],login1" starts with gpu07."""
    return re.sub(r"\[([^\],-]+)[^\]]*\]", r"\1", hosts).partition(",")[0]
