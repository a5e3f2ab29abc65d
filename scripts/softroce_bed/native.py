# SPDX-License-Identifier: Apache-2.0
"""The kernel of this machine, if it has rxe and the user may add devices."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

from softroce_bed import packages
from softroce_bed.bed import BedError, Job
from softroce_bed.guests import Guest, Process, run_guests

NAME = "native"
CAP_NET_ADMIN = 12


def kernel_has_rxe() -> bool:
    """Whether the module is built in, loaded, or can be loaded."""
    if " rxe_newlink" in Path("/proc/kallsyms").read_text():
        return True
    modprobe = shutil.which("modprobe", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if modprobe is None:
        return False
    command = [modprobe, "--dry-run", "--quiet", "rdma_rxe"]
    return subprocess.run(command, check=False).returncode == 0


def has_capability(number: int, status: str) -> bool:
    """The capabilities of this process, from the text of /proc/self/status."""
    for line in status.splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> number & 1)
    return False


def in_first_network_namespace() -> bool:
    """Whether this is the first network namespace: some sysctls exist in no other."""
    return Path("/proc/sys/net/core/netdev_max_backlog").exists()


class Native:
    name = NAME
    is_virtual = False
    patience = 1

    def obstacle(self) -> str:
        if not kernel_has_rxe():
            return (
                f"the running kernel {platform.release()} has no rdma_rxe module; a distribution's"
                " full kernel has it (Debian: linux-image-amd64, Ubuntu: linux-modules-extra)"
            )
        if not in_first_network_namespace():
            return "rxe works in the machine's own network namespace only, not in a container's"
        if not has_capability(CAP_NET_ADMIN, Path("/proc/self/status").read_text()):
            return "adding network devices takes CAP_NET_ADMIN; run it as root"
        return ""

    def is_ready(self) -> bool:
        return not self.obstacle() and not packages.missing("bed")

    def setup(self) -> None:
        packages.install("bed")

    def room(self) -> int:
        return 1  # devices have names, and this kernel is theirs

    def run(self, job: Job) -> int:
        if job.guests != 1:
            raise BedError("the native bed is one kernel; two guests need --bed uml or qemu")
        if job.interactive:
            raise BedError("the native bed has no shell of its own; use --bed uml or qemu")
        return run_guests(self, job)

    def process(self, guest: Guest) -> Process:
        script = str(guest.control / "native_run.sh")
        return Process(
            ["bash", script, str(guest.control), str(guest.stdout_fd), str(guest.stderr_fd)],
            {},
            afterwards=["bash", script, str(guest.control), "undo"],
        )
