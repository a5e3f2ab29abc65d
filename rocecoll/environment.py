# SPDX-License-Identifier: Apache-2.0
"""What surrounds this process: its launcher, its place among the ranks of its host, its container.

This module reads every environment variable but those of options, which options.py reads.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator

from rocecoll import launcher_names
from rocecoll.host import accelerators


def master_address() -> str | None:
    """The host that the launcher named as meeting point."""
    return os.environ.get("MASTER_ADDR") or None


def restarts() -> str | None:
    """How often torchrun has restarted the ranks; None where ranks may differ in what they are told.

    The torchrun of each host counts only the failures of its own ranks.
    """
    if os.environ.get("GROUP_WORLD_SIZE") != "1":
        return None
    return os.environ.get("TORCHELASTIC_RESTART_COUNT")


# The beginnings of other variables that change how a job runs.
_INFLUENCES = (
    "CUDA_",
    "GLOO_",
    "KUBERNETES_SERVICE_HOST",
    "LD_",
    "NCCL_",
    "OMP_",
    "PYTHON",
    "TORCH",
)


def reported_variables(prefix: str) -> dict[str, str]:
    """For a bug report: ours, which begin with `prefix`, and a launcher's have their values shown.

    Of the others that change how a job runs it says only that they are set.
    """
    reported = {}
    for name in sorted(os.environ):
        if name.startswith(prefix) or name in launcher_names.REPORTED:
            reported[name] = os.environ[name]
        elif name.startswith(_INFLUENCES):
            reported[name] = "(set)"
    return reported


def in_kubernetes() -> bool:
    """Kubernetes tells each container where its service is."""
    return "KUBERNETES_SERVICE_HOST" in os.environ


def launcher_variables() -> dict[str, str]:
    """The variables of launchers that are set."""
    return {name: os.environ[name] for name in launcher_names.PLACES if name in os.environ}


def inherited_variables() -> dict[str, str]:
    """All variables, for a child process that is given more of them."""
    return dict(os.environ)


@contextlib.contextmanager
def gloo_interface(name: str | None) -> Iterator[None]:
    """Groups of gloo made inside use this interface, unless the user has named one."""
    variable = "GLOO_SOCKET_IFNAME"
    if name is None or variable in os.environ:
        yield
        return
    os.environ[variable] = name
    try:
        yield
    finally:
        del os.environ[variable]


def starter(rank_variable: str) -> int | None:
    """The id of the process that started the ranks of this host, if it can be known.

    That is the nearest ancestor without a rank: a shell around a rank has the rank's variables, too.
    """
    import psutil

    try:
        for ancestor in psutil.Process().parents():
            if rank_variable not in ancestor.environ():
                return int(ancestor.pid)
    except (psutil.Error, OSError):  # another user's, or there is no /proc
        return None
    return None


def local_ranks() -> int:
    """Number of ranks on this machine; 0 if no launcher says it."""
    return _told(launcher_names.LOCAL_SIZES, least=1) or 0


def local_rank() -> int | None:
    """Place among the ranks of this machine; None if no launcher says it."""
    return _told(launcher_names.LOCAL_RANKS, least=0)


def accelerator() -> str:
    """PCI address of the GPU that this rank computes on; empty where it is not known."""
    return accelerators.pci_address(os.environ.get(accelerators.VISIBLE), local_rank())


def _told(names: Iterable[str], least: int) -> int | None:
    """The number in the first of these variables that has one."""
    for name in names:
        value = os.environ.get(name, "")
        if value.isdigit() and int(value) >= least:
            return int(value)
    return None
