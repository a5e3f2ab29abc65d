# SPDX-License-Identifier: Apache-2.0
"""QEMU without KVM: the distribution's own kernel, on two processors. Needs no root to run."""

from __future__ import annotations

import platform
import shutil

from softroce_bed import packages, qemu_kernel, wire
from softroce_bed.bed import BedError, Job
from softroce_bed.guests import Guest, Process, room_for_guests, run_guests

NAME = "qemu"
EMULATOR = "qemu-system-x86_64"
PROCESSORS = 2

# nokaslr: an unpacked kernel lies where it was linked. The rest leaves out what costs time when emulated,
# and raises timeouts, so that the guest of a busy host does not take its own slowness for a fault.
KERNEL_OPTIONS = (
    "console=ttyS0 loglevel=5 panic=-1 oops=panic nokaslr mitigations=off tsc=reliable no_timer_check"
    " cryptomgr.notests audit=0 selinux=0 apparmor=0 lsm= random.trust_cpu=on"
    " watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120"
)


def file_system(tag: str, path: str, options: str) -> list[str]:
    """A directory of the host that the guest mounts over 9p; `none`: all files belong to this user."""
    return [
        "-fsdev",
        f"local,id={tag},path={path},security_model=none,multidevs=remap{options}",
        "-device",
        f"virtio-9p-pci,fsdev={tag},mount_tag={tag}",
    ]


def console(name: str, backend: str, fd: int) -> list[str]:
    """The next /dev/hvcN of the guest; `serial` is for terminals, `file` for output only."""
    return [
        "-chardev",
        f"{backend},id={name},path=/dev/fd/{fd}",
        "-device",
        f"virtconsole,chardev={name}",
    ]


def kernel_command_line(guest: Guest) -> str:
    """The kernel gives the variables to its first process."""
    variables = {
        "SOFTROCE_CONTROL": str(guest.control),
        "SOFTROCE_SHARE": "9p",
        "SOFTROCE_GUEST": str(guest.number),
        "SOFTROCE_STDOUT": "/dev/hvc0",
        "SOFTROCE_STDERR": "/dev/hvc1",
    }
    if guest.terminal_fd is not None:
        variables["SOFTROCE_TERMINAL"] = "/dev/hvc2"
    if guest.wire_fd is not None:
        variables["SOFTROCE_NIC"] = "eth0"
    return " ".join([KERNEL_OPTIONS, *(f"{name}={value}" for name, value in variables.items())])


def command(guest: Guest, boot: qemu_kernel.Boot) -> list[str]:
    result = [EMULATOR, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    result += ["-machine", "q35", "-cpu", "max", "-accel", "tcg,thread=multi"]
    result += ["-smp", str(PROCESSORS), "-m", f"{guest.memory_mib}M"]
    result += ["-kernel", str(boot.kernel), "-initrd", str(boot.initramfs)]
    result += ["-append", kernel_command_line(guest)]
    result += ["-chardev", f"file,id=kernel,path=/dev/fd/{guest.console_fd}"]
    result += ["-serial", "chardev:kernel"]
    result += ["-device", "virtio-serial-pci", "-device", "virtio-rng-pci"]
    result += console("stdout", "file", guest.stdout_fd)
    result += console("stderr", "file", guest.stderr_fd)
    if guest.terminal_fd is not None:
        result += console("terminal", "serial", guest.terminal_fd)
    result += file_system("host", "/", ",readonly=on")
    result += file_system("control", str(guest.control), "")
    if guest.wire_fd is not None:
        mac = f"02:00:00:00:00:0{guest.number + 1}"
        result += ["-netdev", f"dgram,id=wire,local.type=fd,local.str={guest.wire_fd}"]
        result += [
            "-device",
            f"virtio-net-pci,netdev=wire,mac={mac},romfile=,host_mtu={wire.MTU_BYTES}",
        ]
    return result


class Qemu:
    name = NAME
    is_virtual = True
    patience = 4  # programs take 10 to 20 times the processor time

    def obstacle(self) -> str:
        if platform.system() != "Linux" or platform.machine() != "x86_64":
            return f"runs on x86-64 Linux only; this is {platform.machine()} {platform.system()}"
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            return "takes its kernel from a Debian package, and this system has no apt-get"
        return ""

    def is_ready(self) -> bool:
        return qemu_kernel.newest_boot() is not None and not packages.missing("bed", self.name)

    def setup(self) -> None:
        if self.is_ready():
            return
        packages.install("bed", self.name)
        qemu_kernel.make()

    def room(self) -> int:
        return room_for_guests(PROCESSORS)

    def run(self, job: Job) -> int:
        return run_guests(self, job)

    def process(self, guest: Guest) -> Process:
        boot = qemu_kernel.newest_boot()
        if boot is None:
            raise BedError("the bed has no kernel yet: ./scripts/softroce setup --bed qemu")
        return Process(command(guest, boot), {})
