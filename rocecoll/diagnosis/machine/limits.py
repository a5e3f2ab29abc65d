# SPDX-License-Identifier: Apache-2.0
"""What the system grants a process: descriptors, processors, and whether it is in a container."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from rocecoll import environment
from rocecoll.diagnosis.finding import Finding, Level
from rocecoll.host import processors

# torch and Python need most of them; rocecoll some, and one for each other rank of the host.
DESCRIPTORS = 256


def check_open_files() -> list[Finding]:
    return [judge_open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[0])]


def judge_open_files(limit: int) -> Finding:
    if limit == resource.RLIM_INFINITY or limit >= DESCRIPTORS:
        shown = "no limit" if limit == resource.RLIM_INFINITY else f"{limit} for a process"
        return Finding("open files", Level.OK, shown)
    text = f"{limit} for a process: too few for torch and a rank of each neighbour on this host"
    return Finding("open files", Level.WARNING, text, f"ulimit -n {4 * DESCRIPTORS}")


def check_processors(root: Path = processors.ROOT) -> list[Finding]:
    usable = len(os.sched_getaffinity(0))
    granted = processors.granted(root)
    if granted is None or granted >= usable:
        return [Finding("processors", Level.OK, f"{usable} can be used")]
    text = (
        f"the container's limit is {granted:g} of the {usable} that programs see: ranks and "
        "threads beyond it are stopped for a while, which looks like a slow network"
    )
    cure = f"export OMP_NUM_THREADS={max(1, int(granted))} ROCECOLL_SPIN_US=0"
    return [Finding("processors", Level.WARNING, text, cure)]


def check_container(root: Path = processors.ROOT) -> list[Finding]:
    marks = [f"/{mark}" for mark in (".dockerenv", "run/.containerenv") if (root / mark).exists()]
    if environment.in_kubernetes():
        marks.append("KUBERNETES_SERVICE_HOST")
    if not marks:
        return [Finding("container", Level.OK, "none is to be seen")]
    text = (
        f"this is one ({', '.join(marks)}): other hosts must have a way to its address and UDP "
        "ports, which those behind address translation do not have"
    )
    cure = "" if environment.in_kubernetes() else "docker run --network host ..."
    return [Finding("container", Level.NOTE, text, cure)]
