# SPDX-License-Identifier: Apache-2.0
"""What the qemu bed does before it boots: unpacking a kernel, an initramfs, the command line."""

from __future__ import annotations

import lzma
import os
import struct
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from softroce_bed import qemu, qemu_kernel, roce, step_runner
from softroce_bed.bed import BedError, Job
from softroce_bed.guests import Guest

pytestmark = pytest.mark.quick

ELF = b"\x7fELF" + bytes(range(256))


def boot_image(packed: bytes, code: bytes = b"") -> bytes:
    """A bzImage as far as it matters: code lies before the payload and after it."""
    return b"HdrS" + 77 * b"c" + code + packed + 99 * b"c"


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(b"", id="nothing else"),
        pytest.param(qemu_kernel.XZ_MAGIC + 40 * b"c", id="like an archive"),
        pytest.param(lzma.compress(b"no ELF"), id="another archive"),
    ],
)
def test_kernel_packed_by_xz_is_unpacked(code: bytes) -> None:
    packed = lzma.compress(ELF) + struct.pack("<I", len(ELF))  # its size follows it
    assert qemu_kernel.bootable(boot_image(packed, code)) == ELF


@pytest.mark.parametrize(
    "image",
    [
        pytest.param(boot_image(b"\x28\xb5\x2f\xfd" + b"z" * 64), id="zstd"),
        pytest.param(boot_image(lzma.compress(b"no ELF")), id="no ELF"),
        pytest.param(b"HdrS" + lzma.compress(ELF)[:-9], id="cut off"),
        pytest.param(ELF, id="no bzImage"),
        pytest.param(b"", id="empty"),
    ],
)
def test_other_kernel_is_booted_as_it_is(image: bytes) -> None:
    assert qemu_kernel.bootable(image) == image


# Stand-ins for the packages' tools, with what they answer. `busybox` leaves a copy of what it
# packs.
TOOLS = {
    "depmod": 'touch "$2/made by depmod"',
    "modprobe": """[ -e "$2/made by depmod" ] || exit 1
        case "$*" in
            *absent*) echo "modprobe: FATAL: Module absent not found" >&2; exit 1 ;;
        esac
        echo "insmod $2/lib/modules/6.1/kernel/net/9pnet.ko.xz "
        echo "insmod $2/lib/modules/6.1/kernel/net/9p.ko.xz "
        echo "builtin virtio"
        echo "insmod $2/lib/modules/6.1/kernel/net/9pnet.ko.xz "
        echo "insmod $2/lib/modules/6.1/kernel/crc32-generic.ko "
        """,
    "busybox": 'for last; do :; done; sort >"$last" && cp -a . "$COPY"',
}
CONTENTS = {"9pnet.ko": b"net", "9p.ko": b"9p", "crc32-generic.ko": b"crc"}


@pytest.fixture(params=["lib", "usr/lib"])
def package(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """An unpacked kernel package, and tools on PATH."""
    unpacked = tmp_path / "the package"
    modules = unpacked / request.param / "modules" / "6.1" / "kernel"
    (modules / "net").mkdir(parents=True)
    (modules / "net" / "9p.ko.xz").write_bytes(lzma.compress(b"9p"))
    (modules / "net" / "9pnet.ko.xz").write_bytes(lzma.compress(b"net"))
    (modules / "crc32-generic.ko").write_bytes(b"crc")
    (unpacked / "boot").mkdir()
    (unpacked / "boot" / "vmlinuz-6.1").write_bytes(boot_image(lzma.compress(ELF)))
    (tmp_path / "bin").mkdir()
    for name, script in TOOLS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("COPY", str(tmp_path / "copy"))
    return unpacked


def test_boot_has_kernel_and_modules_in_their_order(package: Path, tmp_path: Path) -> None:
    """Modules may be packed or not, and each is there once."""
    boot = qemu_kernel.Boot(tmp_path)
    qemu_kernel.write_boot(boot, package)
    assert boot.kernel.read_bytes() == ELF
    assert not package.exists()
    root = tmp_path / "copy"
    assert (root / "modules" / "order").read_text().splitlines() == list(CONTENTS)
    for name, content in CONTENTS.items():
        assert (root / "modules" / name).read_bytes() == content
    assert (root / "init").read_bytes() == qemu_kernel.INIT.read_bytes()
    assert os.access(root / "init", os.X_OK) and os.access(root / "bin" / "sh", os.X_OK)
    packed = set(boot.initramfs.read_text().split())
    assert packed == {str(path.relative_to(root)) for path in root.rglob("*")}
    assert {"bin/busybox", "host", "modules/9p.ko"} < packed


def test_missing_module_is_named(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu_kernel, "MODULES", ("veth", "absent"))
    with pytest.raises(BedError, match="Module absent not found"):
        qemu_kernel.modules_in_order(package)


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
    (tmp_path / "busybox").write_bytes(b"busybox")
    monkeypatch.setattr(qemu_kernel, "busybox", lambda: tmp_path / "busybox")
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
        (tmp_path / "busybox").write_bytes(b"newer")
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
    assert step_runner.run_step(qemu.Qemu(), roce.Step("x", "true", limit_s=10), tmp_path) == ""
    assert jobs[0].limit_s == 10 * qemu.Qemu.patience > 10
