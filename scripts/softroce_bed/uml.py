# SPDX-License-Identifier: Apache-2.0
"""User-Mode Linux: a kernel that is a program. Needs no root and no KVM; has one CPU."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from pathlib import Path

from softroce_bed import packages, uml_kernel, wire
from softroce_bed.bed import BedError, Job, say
from softroce_bed.guests import Guest, Process, room_for_guests, run_guests

NAME = "uml"
MAPPINGS_LIMIT = Path("/proc/sys/vm/max_map_count")
MAPPINGS = 1 << 20  # more than the pages of a guest; recent distributions set it


def memory_directory(needed_bytes: int) -> Path:
    """A directory with room for the file that is the guest's memory; the kernel itself does not check.

    Containers often have a tiny /dev/shm, and running out of it kills the guest by SIGBUS.
    """
    candidates = [Path("/dev/shm"), Path(tempfile.gettempdir())]
    for path in candidates:
        writable = path.is_dir() and os.access(path, os.W_OK | os.X_OK)
        if not writable or os.statvfs(path).f_flag & os.ST_NOEXEC:
            continue
        if shutil.disk_usage(path).free >= needed_bytes:
            return path
    raise BedError(
        f"a guest's memory of {needed_bytes >> 20} MiB fits neither {candidates[0]} nor"
        f" {candidates[1]} (file systems that allow execution): give less --memory-mib, a larger"
        " /dev/shm, or TMPDIR"
    )


def allow_mappings(limit: Path = MAPPINGS_LIMIT) -> None:
    """Raises vm.max_map_count. A guest's process is one of this host, with a mapping for nearly every page.

    One that imports torch has 60,000. At Linux's default limit, 65530, it dies of SIGSEGV, with a message
    only on the console. That may still happen if the limit cannot be raised, which needs root.
    """
    before = int(limit.read_text())
    if before >= MAPPINGS or not os.access(limit, os.W_OK):
        return
    limit.write_text(str(MAPPINGS))
    say(f"uml: vm.max_map_count of this host is {MAPPINGS} now, not {before}")


class Uml:
    name = NAME
    is_virtual = True
    patience = 1

    def obstacle(self) -> str:
        if platform.system() != "Linux" or platform.machine() != "x86_64":
            return f"runs on x86-64 Linux only; this is {platform.machine()} {platform.system()}"
        return ""

    def is_ready(self) -> bool:
        return uml_kernel.built_kernel() is not None and not packages.missing("bed")

    def setup(self) -> None:
        if self.is_ready():
            return
        packages.install("bed", self.name)
        uml_kernel.build()

    def room(self) -> int:
        return room_for_guests(processors=1)

    def run(self, job: Job) -> int:
        allow_mappings()
        return run_guests(self, job)

    def process(self, guest: Guest) -> Process:
        kernel = uml_kernel.built_kernel()
        if kernel is None:
            raise BedError("the kernel of the bed is not built: ./scripts/softroce setup --bed uml")
        command = [
            str(kernel),
            f"mem={guest.memory_mib}M",
            "root=none",
            "rootfstype=hostfs",
            "rootflags=/",
            "ro",
            f"init={guest.control}/guest_init.sh",
            f"uml_dir={guest.control}/uml",
            f"umid=guest{guest.number}",
            "loglevel=5",  # warnings and worse
            "oops=panic",
            "con=null",
            f"con0=null,fd:{guest.console_fd}",
            f"con1=null,fd:{guest.stdout_fd}",
            f"con2=null,fd:{guest.stderr_fd}",
            f"SOFTROCE_CONTROL={guest.control}",
            "SOFTROCE_SHARE=hostfs",
            f"SOFTROCE_GUEST={guest.number}",
            "SOFTROCE_STDOUT=/dev/tty1",
            "SOFTROCE_STDERR=/dev/tty2",
        ]
        if guest.terminal_fd is not None:
            command += [f"con3=fd:{guest.terminal_fd}", "SOFTROCE_TERMINAL=/dev/tty3"]
        if guest.wire_fd is not None:
            mac = f"02:00:00:00:00:0{guest.number + 1}"
            command += [
                f"vec0:transport=fd,fd={guest.wire_fd},mtu={wire.MTU_BYTES},mac={mac}",
                "SOFTROCE_NIC=vec0",
            ]
        return Process(command, {"TMPDIR": str(memory_directory(guest.memory_mib << 20))})
