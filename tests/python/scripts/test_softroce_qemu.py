# SPDX-License-Identifier: Apache-2.0
"""What the qemu bed does before it boots: unpacking a kernel, an initramfs, the command line."""

from __future__ import annotations

import lzma
import struct
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from softroce_bed import kernel_image, kernel_modules, qemu, qemu_kernel, roce
from softroce_bed.bed import BedError, Job
from softroce_bed.guests import Guest
from softroce_bed.initramfs import Initramfs

pytestmark = pytest.mark.quick

ELF = b"\x7fELF" + bytes(range(256))


def boot_image(packed: bytes, setup_sectors: int = 3, version: int = 0x020F) -> bytes:
    """A bzImage with the fields that matter; code lies before the payload and after it."""
    image = bytearray((1 + (setup_sectors or 4)) * 512)
    image[0x1F1] = setup_sectors
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", image, 0x206, version)
    struct.pack_into("<II", image, 0x248, 77, len(packed))
    return bytes(image) + b"c" * 77 + packed + b"c" * 99


@pytest.mark.parametrize("setup_sectors", [0, 3, 64])
def test_kernel_packed_by_xz_is_unpacked(setup_sectors: int) -> None:
    packed = lzma.compress(ELF) + struct.pack("<I", len(ELF))  # its size follows it
    assert kernel_image.bootable(boot_image(packed, setup_sectors)) == ELF


@pytest.mark.parametrize(
    "image",
    [
        pytest.param(boot_image(b"\x28\xb5\x2f\xfd" + b"z" * 64), id="zstd"),
        pytest.param(boot_image(lzma.compress(b"no ELF")), id="no ELF"),
        pytest.param(boot_image(lzma.compress(ELF), version=0x0207), id="old protocol"),
        pytest.param(ELF, id="no bzImage"),
        pytest.param(b"", id="empty"),
    ],
)
def test_other_kernel_is_booted_as_it_is(image: bytes) -> None:
    assert kernel_image.bootable(image) == image


def module(*depends: str) -> bytes:
    return b"\x7fELF\0license=GPL\0depends=" + ",".join(depends).encode() + b"\0name=x\0"


MODULES = {
    "rdma_rxe": module("ib_core", "udp-tunnel"),
    "ib_core": module(),
    "udp_tunnel": module("ip_base"),
    "ip_base": module(),
    "rdma_ucm": module("ib_core"),
    "no_modinfo": b"\x7fELF",
}


def test_modules_come_after_what_they_need() -> None:
    order = kernel_modules.load_order(["rdma_rxe", "rdma_ucm"], set(), MODULES.__getitem__)
    assert list(order) == ["ib_core", "ip_base", "udp_tunnel", "rdma_rxe", "rdma_ucm"]
    assert order["ib_core"] == MODULES["ib_core"]


def test_built_in_modules_are_not_loaded() -> None:
    builtin = {"ib_core", "virtio"}
    order = kernel_modules.load_order(["virtio", "rdma_ucm"], builtin, MODULES.__getitem__)
    assert list(order) == ["rdma_ucm"]


def test_missing_module_is_named() -> None:
    with pytest.raises(BedError, match="no module veth"):
        kernel_modules.load_order(["rdma_ucm", "veth"], set(), MODULES.__getitem__)


def test_modules_are_found_packed_or_not(tmp_path: Path) -> None:
    (tmp_path / "kernel" / "net").mkdir(parents=True)
    (tmp_path / "kernel" / "crc32-generic.ko").write_bytes(module("a"))
    (tmp_path / "kernel" / "net" / "9p.ko.xz").write_bytes(lzma.compress(module("9pnet")))
    (tmp_path / "kernel" / "net" / "other.ko.txt").write_bytes(b"")
    (tmp_path / "modules.builtin").write_text("kernel/a/unix.ko\nkernel/b/crypto-x.ko\n")
    files = kernel_modules.module_files(tmp_path)
    assert sorted(files) == ["9p", "crc32_generic"]
    contents = {name: kernel_modules.module_content(path) for name, path in files.items()}
    assert contents == {"9p": module("9pnet"), "crc32_generic": module("a")}
    assert kernel_modules.builtin_modules(tmp_path) == {"unix", "crypto_x"}


def entries(archive: bytes) -> dict[str, tuple[int, bytes]]:
    """Mode and content by path, read as the kernel reads it (init/initramfs.c)."""
    found = {}
    at = 0
    while True:
        assert at % 4 == 0
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        name = archive[at + 110 : at + 110 + name_size]
        assert name.endswith(b"\0")
        at += -(-(110 + name_size) // 4) * 4
        content = archive[at : at + size]
        assert len(content) == size
        at += -(-size // 4) * 4
        if name == b"TRAILER!!!\0":
            assert at == len(archive)
            return found
        found[name[:-1].decode()] = (mode, content)


@pytest.mark.parametrize("length", range(6))
def test_initramfs(length: int) -> None:
    """Names and contents of every length, because both are padded."""
    name, content = "f" * (length + 1), b"x" * length
    initramfs = Initramfs()
    initramfs.directory("dev")
    initramfs.console()
    initramfs.file(name, content)
    initramfs.file("init", b"#!/bin/sh\n", executable=True)
    initramfs.symlink("sh", "busybox")
    assert entries(initramfs.whole()) == {
        "dev": (0o040755, b""),
        "dev/console": (0o020600, b""),
        name: (0o100644, content),
        "init": (0o100755, b"#!/bin/sh\n"),
        "sh": (0o120777, b"busybox"),
    }


def test_what_apt_says() -> None:
    listing = "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n"
    assert qemu_kernel.dependency(listing) == "linux-image-6.1.0-56-amd64"
    with pytest.raises(BedError, match="depends on no kernel"):
        qemu_kernel.dependency("linux-image-amd64\n")
    policy = "linux-image:\n  Installed: (none)\n  Candidate: 6.1.192-2\n  Version table:\n"
    assert qemu_kernel.candidate(policy) == "6.1.192-2"
    assert qemu_kernel.candidate(policy.replace("6.1.192-2", "(none)")) == ""
    assert qemu_kernel.candidate("") == ""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache's directory, with the boots of two kernels in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(qemu_kernel, "busybox", lambda: b"busybox")
    monkeypatch.setattr(qemu_kernel.shutil, "which", lambda name: f"/bin/{name}")
    directory = tmp_path / "rocecoll" / "softroce"
    for version in ("6.1.2", "6.1.10"):
        (directory / f"qemu-{version}-{qemu_kernel.content_hash()}").mkdir(parents=True)
    return directory


def test_newest_boot_is_what_was_made_last(made: Path) -> None:
    old, new = sorted(made.iterdir())
    for path, seconds in ((old, 1000), (new, 2000)):
        qemu_kernel.os.utime(path, (seconds, seconds))
    assert qemu_kernel.newest_boot() == qemu_kernel.Boot(new)
    qemu_kernel.os.utime(old, (3000, 3000))
    assert qemu_kernel.newest_boot() == qemu_kernel.Boot(old)


@pytest.mark.parametrize("change", ["busybox", "init", "modules", "gone"])
def test_boot_made_of_something_else_does_not_count(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    if change == "busybox":
        monkeypatch.setattr(qemu_kernel, "busybox", lambda: b"newer")
    elif change == "init":
        (tmp_path / "init").write_text("#!/bin/sh\n")
        monkeypatch.setattr(qemu_kernel, "INIT", tmp_path / "init")
    elif change == "modules":
        monkeypatch.setattr(qemu_kernel, "MODULES", ("veth",))
    else:
        monkeypatch.setattr(qemu_kernel.shutil, "which", lambda name: None)
    assert qemu_kernel.newest_boot() is None


GUEST = Guest(
    number=1,
    control=Path("/tmp/softroce-x"),
    memory_mib=512,
    console_fd=5,
    stdout_fd=6,
    stderr_fd=7,
    terminal_fd=None,
    wire_fd=None,
)
BOOT = qemu_kernel.Boot(Path("/cache/qemu-6.1"))


def values(command: list[str], option: str) -> list[str]:
    return [value for key, value in pairwise(command) if key == option]


def test_host_is_read_only_and_the_control_directory_is_not() -> None:
    host, control = values(qemu.command(GUEST, BOOT), "-fsdev")
    assert "path=/," in host
    assert host.endswith(",readonly=on")
    assert "path=/tmp/softroce-x," in control
    assert "readonly" not in control


def test_output_comes_through_the_pipes() -> None:
    command = qemu.command(GUEST, BOOT)
    kernel, stdout, stderr = values(command, "-chardev")
    assert kernel.endswith("path=/dev/fd/5")
    assert stdout.endswith("path=/dev/fd/6")
    assert stderr.endswith("path=/dev/fd/7")
    assert "SOFTROCE_STDOUT=/dev/hvc0 SOFTROCE_STDERR=/dev/hvc1" in values(command, "-append")[0]


def test_shell_has_a_terminal_of_its_own() -> None:
    command = qemu.command(replace(GUEST, terminal_fd=9), BOOT)
    assert values(command, "-chardev")[3] == "serial,id=terminal,path=/dev/fd/9"
    assert values(command, "-append")[0].endswith("SOFTROCE_TERMINAL=/dev/hvc2")


def test_one_guest_has_no_wire() -> None:
    command = qemu.command(GUEST, BOOT)
    assert values(command, "-netdev") == []
    assert "SOFTROCE_NIC" not in values(command, "-append")[0]


def test_two_guests_have_a_wire_and_addresses_of_their_own() -> None:
    guests = [replace(GUEST, number=number, wire_fd=8 + number) for number in (0, 1)]
    commands = [qemu.command(guest, BOOT) for guest in guests]
    ends = [values(command, "-netdev")[0] for command in commands]
    assert [end.rpartition("=")[2] for end in ends] == ["8", "9"]
    cards = [values(command, "-device")[-1] for command in commands]
    assert len({card.partition("mac=")[2].partition(",")[0] for card in cards}) == 2
    for number, command in enumerate(commands):
        assert f"SOFTROCE_GUEST={number} " in values(command, "-append")[0]
        assert "SOFTROCE_NIC=eth0" in values(command, "-append")[0]


def test_machine_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu.platform, "machine", lambda: "aarch64")
    assert "aarch64" in qemu.Qemu().obstacle()
    monkeypatch.setattr(qemu.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(qemu.shutil, "which", lambda name: None)
    assert "no apt-get" in qemu.Qemu().obstacle()


def test_tests_get_the_time_that_emulation_takes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jobs: list[Job] = []
    monkeypatch.setattr(qemu.Qemu, "run", lambda self, job: jobs.append(job) or 0)
    assert roce.run_step(qemu.Qemu(), roce.Step("x", "true", limit_s=10), tmp_path) == ""
    assert jobs[0].limit_s == 10 * qemu.Qemu.patience > 10
