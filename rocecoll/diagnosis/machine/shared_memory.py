# SPDX-License-Identifier: Apache-2.0
"""Whether two processes of this host can exchange data through memory, tried with a child process."""

from __future__ import annotations

import ctypes
import os
import secrets
import subprocess
import sys
from pathlib import Path

from rocecoll import options
from rocecoll.diagnosis.finding import Finding, Level
from rocecoll.diagnosis.machine import memory_probe

YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
_PR_SET_PTRACER, _ANYBODY = 0x59616D61, ctypes.c_ulong(-1)
_PROBE_LIMIT_S = 60.0


def check_shared_memory(settings: options.Settings) -> list[Finding]:
    if not settings["shm"]:
        text = "not used, by ROCECOLL_SHM, ROCECOLL_TRANSPORT or ROCECOLL_FAULT: UDP instead"
        return [Finding("shared memory", Level.NOTE, text)]
    return [judge(try_child(), ptrace_scope())]


def ptrace_scope(path: Path = YAMA) -> int:
    """Yama's ptrace_scope; 0 if the kernel has no Yama."""
    return int(path.read_text()) if path.exists() else 0


def try_child() -> dict[str, str]:
    """What failed in a child process, and why: "memfd", "fetch" or both."""
    text = secrets.token_hex(32)
    memory = ctypes.create_string_buffer(text.encode())
    if ptrace_scope() == 1:  # as the core does for ranks, none of which is a child of another
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANYBODY, 0, 0, 0)
    try:
        descriptor = os.memfd_create("rocecoll_doctor")
    except OSError as error:
        return {"memfd": error.strerror or str(error)}
    try:
        os.write(descriptor, text.encode())
        numbers = [descriptor, os.getpid(), ctypes.addressof(memory)]
        done = subprocess.run(
            [sys.executable, memory_probe.__file__, *map(str, numbers), text],
            pass_fds=[descriptor],
            capture_output=True,
            text=True,
            timeout=_PROBE_LIMIT_S,
            check=True,
        )
    finally:
        os.close(descriptor)
    failures = (line.partition(": ") for line in done.stdout.splitlines())
    return {what: why for what, _, why in failures}


def judge(failures: dict[str, str], scope: int) -> Finding:
    if "memfd" in failures:
        text = f"memfd: {failures['memfd']}. Ranks of this host go over loopback, which is slower"
        cure = "docker run --security-opt seccomp=unconfined ...  # if this is a container"
        return Finding("shared memory", Level.WARNING, text, cure)
    if "fetch" not in failures:
        return Finding("shared memory", Level.OK, "another process maps a memfd and fetches memory")
    text = f"works in two copies, for a process may not fetch from another: {failures['fetch']}"
    if scope >= 2:
        text += f" (kernel.yama.ptrace_scope is {scope})"
        cure = "sudo sysctl -w kernel.yama.ptrace_scope=1"
    else:
        text += " (seccomp, or another user)"
        cure = "docker run --cap-add SYS_PTRACE ...  # if this is a container"
    return Finding("shared memory", Level.WARNING, text, cure)
