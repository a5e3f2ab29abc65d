# SPDX-License-Identifier: Apache-2.0
"""Gets the distribution's kernel package and makes from it what a qemu guest boots.

The package is unpacked into the cache and not installed: the host's own boot does not change.
"""

from __future__ import annotations

import contextlib
import lzma
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from softroce_bed import cache
from softroce_bed.bed import BedError, ImpossibleError, say

METAPACKAGE = "linux-image-amd64"  # depends on the newest kernel of the release
INIT = Path(__file__).resolve().parent / "qemu_init.sh"
MODULES = (
    "virtio_pci",
    "virtio_rng",
    "virtio_console",
    "virtio_net",
    "9p",
    "9pnet_virtio",
    "overlay",
    "veth",
    "sch_netem",
    "crc32_generic",  # rxe asks for it by name; the one by pclmul is slower when emulated
    "rdma_rxe",
    "rdma_ucm",
    "ib_umad",
)
DOWNLOAD_LIMIT_S = 900
UNPACK_SPACE_BYTES = 600 * 1000**2  # of which 72 MB stay
XZ_MAGIC, ELF_MAGIC = b"\xfd7zXZ\0", b"\x7fELF"


@dataclass(frozen=True)
class Boot:
    """What a guest boots: a directory of the cache."""

    directory: Path

    @property
    def kernel(self) -> Path:
        return self.directory / "kernel"

    @property
    def initramfs(self) -> Path:
        return self.directory / "initramfs"


def busybox() -> Path:
    path = shutil.which("busybox")
    if path is None:
        raise BedError("there is no busybox on PATH: ./scripts/softroce setup --bed qemu")
    return Path(path)


def content_hash() -> str:
    """A digest of everything that goes into the initramfs except the kernel package."""
    return cache.short_hash(INIT.read_bytes(), busybox().read_bytes(), *MODULES)


def newest_boot() -> Boot | None:
    """The newest one that was made in the present way, with any kernel."""
    if shutil.which("busybox") is None:
        return None
    made = [path for path in cache.directory().glob(f"qemu-*-{content_hash()}") if path.is_dir()]
    return Boot(max(made, key=lambda path: path.stat().st_mtime)) if made else None


def tool(*command: str, directory: Path | None = None, words: str | None = None) -> str:
    """The tool's output; `words` is its input. Raises BedError with the tool's own message."""
    run = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "LC_ALL": "C", "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
        input=words or "",
        capture_output=True,
        text=True,
        timeout=DOWNLOAD_LIMIT_S,
        check=False,
    )
    if run.returncode != 0:
        raise BedError(f"{' '.join(command)}: {run.stderr.strip() or 'failed'}")
    return run.stdout


def dependency(listing: str) -> str:
    """The kernel package in what `apt-cache depends METAPACKAGE` prints."""
    found = re.search(r"^ *Depends: (linux-image-\S+)$", listing, re.MULTILINE)
    if found is None:
        raise BedError(f"{METAPACKAGE} depends on no kernel package")
    return found[1]


def candidate(policy: str) -> str:
    """The version in what `apt-cache policy PACKAGE` prints, or "" if there is none to get."""
    found = re.search(r"^ *Candidate: ([^(\s]\S*)$", policy, re.MULTILINE)
    return found[1] if found else ""


def kernel_package() -> tuple[str, str]:
    """Name and version of the newest package, even if the mirror has replaced the one that apt knows."""
    if os.geteuid() == 0:
        with contextlib.suppress(BedError):  # without a mirror there may still be apt's cache
            tool("apt-get", "update", "-q")
    if not candidate(tool("apt-cache", "policy", METAPACKAGE)):
        raise ImpossibleError(
            f"apt knows no package {METAPACKAGE}; on Debian `sudo apt-get update` helps"
        )
    name = dependency(tool("apt-cache", "depends", METAPACKAGE))
    version = candidate(tool("apt-cache", "policy", name))
    if not version:
        raise BedError(f"apt knows no version of {name}; `sudo apt-get update` may help")
    return name, version


def make() -> Boot:
    """Makes it from the newest kernel package, unless it exists already."""
    name, version = kernel_package()
    readable = re.sub(r"[^\w.+-]", "_", f"{name.removeprefix('linux-image-')}-{version}")
    target = cache.directory() / f"qemu-{readable}-{content_hash()}"

    def waiting() -> None:
        say("waiting for another process that gets the same kernel")

    def make_into(part: Path) -> None:
        started = time.monotonic()
        say(f"getting {name} {version} (about 70 MB), once")
        write_boot(Boot(part), unpacked_package(part, f"{name}={version}"))
        say(f"the kernel is there, in {time.monotonic() - started:.0f} s")

    return Boot(cache.make_once(target, make_into, waiting))


def unpacked_package(part: Path, package: str) -> Path:
    free_bytes = shutil.disk_usage(part).free
    if free_bytes < UNPACK_SPACE_BYTES:
        raise BedError(
            f"unpacking a kernel takes {UNPACK_SPACE_BYTES / 1e6:.0f} MB for a while and"
            f" {part.parent} has {free_bytes / 1e6:.0f} MB; make room, or set XDG_CACHE_HOME"
        )
    unpacked = part / "unpacked"
    unpacked.mkdir()
    tool("apt-get", "download", "-q", package, directory=part)
    (archive,) = part.glob("*.deb")
    tool("dpkg-deb", "--extract", str(archive), str(unpacked))
    archive.unlink()
    return unpacked


def write_boot(boot: Boot, unpacked: Path) -> None:
    """Takes what is needed out of the package, and removes the rest."""
    (image,) = unpacked.glob("boot/vmlinuz-*")
    boot.kernel.write_bytes(bootable(image.read_bytes()))
    root = unpacked / "initramfs"
    for path in ("bin", "host", "modules"):
        (root / path).mkdir(parents=True)
    shutil.copy(busybox(), root / "bin")
    (root / "bin" / "sh").symlink_to("busybox")
    shutil.copy(INIT, root / "init")
    (root / "init").chmod(0o755)
    modules = [unpacked_module(path, root / "modules") for path in modules_in_order(unpacked)]
    (root / "modules" / "order").write_text("".join(f"{name}\n" for name in modules))
    # /dev/console, which takes root to make, is in every kernel's own initramfs.
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    archive = ["busybox", "cpio", "-o", "-H", "newc", "-R", "0:0", "-F", str(boot.initramfs)]
    tool(*archive, directory=root, words=names)
    shutil.rmtree(unpacked)


def bootable(image: bytes) -> bytes:
    """The kernel in a bzImage compressed by xz, as Debian 12's are; other images as they are.

    Emulated, decompression takes about ten seconds. Like the kernel's own scripts/extract-vmlinux it tries
    every place that begins like an archive.
    """
    at = image.find(XZ_MAGIC)
    while at >= 0:
        archive = lzma.LZMADecompressor(lzma.FORMAT_XZ)
        with contextlib.suppress(lzma.LZMAError):
            kernel = archive.decompress(image[at:])
            if archive.eof and kernel.startswith(ELF_MAGIC):
                return kernel
        at = image.find(XZ_MAGIC, at + 1)
    return image


def modules_in_order(unpacked: Path) -> list[Path]:
    """MODULES and the modules that they need, each after those; without built-in ones."""
    if not (unpacked / "lib").exists():  # newer packages know no other directory than /usr
        (unpacked / "lib").symlink_to("usr/lib")
    (modules,) = unpacked.glob("lib/modules/*")
    tool("depmod", "--basedir", str(unpacked), modules.name)
    known = ["--dirname", str(unpacked), "--set-version", modules.name, "--config", "/dev/null"]
    listing = tool("modprobe", *known, "--show-depends", "--all", *MODULES)
    found = re.findall(r"^insmod (.+\.ko[.\w]*)", listing, re.MULTILINE)
    return [Path(path) for path in dict.fromkeys(found)]


def unpacked_module(module: Path, directory: Path) -> str:
    """The file's name in the directory. It is decompressed here, because that is slow in a guest."""
    content = module.read_bytes()
    target = directory / module.name.removesuffix(".xz")
    target.write_bytes(lzma.decompress(content) if module.suffix == ".xz" else content)
    return target.name
