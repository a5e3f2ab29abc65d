# SPDX-License-Identifier: Apache-2.0
"""Where a process of a test may be put before it joins a group, with what the system really has:
namespaces, users, a seccomp filter, mounts.

Each step changes the process that calls it, which has one thread, for good; OSError where the system
refuses. Most need root's rights.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import platform
import signal
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from launch import ROOT

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID = 0x20000, 0x8000000, 0x10000000, 0x20000000
MS_RDONLY, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 1, 8, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_KEEPCAPS = 1, 4, 8
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
CAPABILITY_VERSION, CAP_DAC_READ_SEARCH = 0x20080522, 2
SYSCALLS = {
    "x86_64": {"process_vm_readv": 310, "memfd_create": 319},
    "aarch64": {"process_vm_readv": 270, "memfd_create": 279},
}
NOBODY = 65534

Step = Callable[[], None]
Place = tuple[Step, ...]


def call(function: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> None:
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    if getattr(ctypes.CDLL(None, use_errno=True), function)(*words) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{function}: {os.strerror(error)}")


def mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    own_mounts()
    kind_bytes = None if kind is None else kind.encode()
    call("mount", source.encode(), target.encode(), kind_bytes, flags, data.encode())


@functools.cache
def own_mounts() -> None:
    """Of this process, once: nobody else sees what it mounts."""
    call("unshare", CLONE_NEWNS)
    call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)


def own_processes() -> None:
    """Continues in a child, the first process of its PID namespace, with a /proc of its own."""
    call("unshare", CLONE_NEWPID)
    child = os.fork()
    if child != 0:
        os._exit(abs(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
    call("prctl", PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    mount("proc", "/proc", "proc", 0)


def own_users() -> None:
    """The same user as before, which is root there and has no power over processes outside."""
    user, group = os.geteuid(), os.getegid()
    call("unshare", CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def ordinary_user() -> None:
    """A user that may only read what Python has yet to load, wherever that is installed."""
    call("prctl", PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    header = ctypes.create_string_buffer(struct.pack("=Ii", CAPABILITY_VERSION, 0))
    kept = 1 << CAP_DAC_READ_SEARCH
    call("capset", header, ctypes.create_string_buffer(struct.pack("=6I", kept, kept, 0, 0, 0, 0)))
    call("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)  # as in a program that this user has started


def hidden() -> None:
    """Hides this process from those of the same user that would read its memory."""
    call("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)


def forbid(syscall: str) -> None:
    """The system call fails with EPERM from now on, as under a container's seccomp profile."""
    if platform.machine() not in SYSCALLS:
        raise OSError(errno.ENOSYS, f"the number of {syscall} on {platform.machine()}: not known")
    number = SYSCALLS[platform.machine()][syscall]
    # Load the number; where it is another one, jump over the first return.
    steps = [
        (0x20, 0, 0, 0),
        (0x15, 0, 1, number),
        (0x06, 0, 0, 0x00050001),
        (0x06, 0, 0, 0x7FFF0000),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
    call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    call("prctl", PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0)


def cover(directory: str, instead: str) -> None:
    mount(instead, directory, None, MS_BIND)


def no_room_for_files() -> None:
    mount("none", "/dev/shm", "tmpfs", MS_NOEXEC, "size=64k")
    mount("none", "/tmp", "tmpfs", MS_RDONLY)


def coverable() -> list[str]:
    """Where temporary files go, as long as nothing there is needed."""
    needed = (ROOT, Path(sys.prefix), Path(sys.base_prefix))
    return [
        name
        for name in ("/dev/shm", "/tmp")
        if not any(path.resolve().is_relative_to(name) for path in needed)
    ]
