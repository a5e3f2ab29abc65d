# SPDX-License-Identifier: Apache-2.0
"""Builds the User-Mode Linux kernel from the distribution's source package, once per user."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import IO

from softroce_bed import cache
from softroce_bed.bed import BedError, say

CONFIG = Path(__file__).resolve().parent / "uml.config"
SOURCES = Path("/usr/src")
ARCHITECTURE = ["ARCH=um", "SUBARCH=x86_64"]
BUILD_LIMIT_S = 3600
# Sources before 6.13 support processors up to AVX2. Their room for a process's registers holds AVX-512, but
# not AMX (11,008 bytes): the first process dies with "ptrace set fp regs failed". And the frame of a signal
# handler saves no more than AVX2's registers: what a handler does with AVX-512 (memcpy is enough) stays in
# the registers of the program that it interrupted.
EDITS = (
    (
        "arch/x86/um/user-offsets.c",
        "DEFINE_LONGS(HOST_FP_SIZE, 2696);",
        "DEFINE_LONGS(HOST_FP_SIZE, 12288);",
    ),
    ("arch/x86/um/signal.c", "sizeof(struct _xstate)", "2696"),
    (
        "arch/x86/um/signal.c",
        "struct _xstate fpstate;",
        "struct _xstate fpstate; char fpstate_rest[2696 - sizeof(struct _xstate)];",
    ),
)
# Half of the archive's bytes, which the bed's configuration never compiles. All Kconfig files are read.
NOT_UNPACKED = (
    "*/arch/[!ux]*/*.*",
    "*/Documentation/*/*",
    "*/drivers/gpu/*.[ch]",
    "*/drivers/media/*.[ch]",
    "*/drivers/net/ethernet/*.[ch]",
    "*/drivers/net/wireless/*.[ch]",
    "*/drivers/scsi/*.[ch]",
    "*/drivers/staging/*.[ch]",
    "*/sound/*.[ch]",
    "*/tools/perf/*",
    "*/tools/testing/*",
)
# The unpacked source and the objects take 0.7 GB until the build is done; the kernel takes 10 MB.
BUILD_SPACE_BYTES = 1 * 1024**3


def version_key(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path.name)]


def source(directory: Path = SOURCES) -> Path | None:
    """The archive of the newest source package that is installed."""
    archives = [path for path in directory.glob("linux-source-*.tar.*") if path.is_file()]
    return max(archives, key=version_key, default=None)


def source_version(archive: Path) -> str:
    """The version of the package, which changes with every update; else a mark of the archive."""
    package = archive.name.partition(".tar.")[0]
    try:
        query = subprocess.run(
            ["dpkg-query", "--show", "--showformat=${Version}", package],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        query = None
    if query is not None and query.returncode == 0 and query.stdout:
        return query.stdout
    status = archive.stat()
    return f"{version_key(archive)}-{status.st_size}-{int(status.st_mtime)}"


def options(config: str) -> list[str]:
    """The lines that set an option, also to `is not set`; the others are comments."""
    return re.findall(r"^(?:CONFIG_\w+=.*|# CONFIG_\w+ is not set)$", config, re.MULTILINE)


def recipe_hash(config: str) -> str:
    """A digest of everything that makes the kernel except the source."""
    parts = (part for edit in EDITS for part in edit)
    return cache.short_hash(*parts, *sorted(options(config)))


def kernel_directory(version: str, config: str) -> Path:
    """The kernel's place in the cache: one for every source and recipe."""
    readable = re.sub(r"[^\w.+-]", "_", version)
    return cache.directory() / f"uml-{readable}-{recipe_hash(config)}"


def built_kernel() -> Path | None:
    """The kernel for the installed source, or without one the last that was built. None: build it."""
    archive, config = source(), CONFIG.read_text()
    if archive is not None:
        built = [kernel_directory(source_version(archive), config) / "linux"]
    else:
        built = list(cache.directory().glob(f"uml-*-{recipe_hash(config)}/linux"))
    built = [kernel for kernel in built if kernel.is_file()]
    return max(built, key=lambda kernel: kernel.stat().st_mtime, default=None)


def build() -> Path:
    archive = source()
    if archive is None:
        raise BedError(f"no kernel source: nothing matches {SOURCES}/linux-source-*.tar.*")
    target = kernel_directory(source_version(archive), CONFIG.read_text())

    def waiting() -> None:
        say("waiting for another process that builds the same kernel")

    cache.make_once(target, lambda part: build_into(part, archive), waiting)
    return target / "linux"


def build_into(part: Path, archive: Path) -> None:
    free_bytes = shutil.disk_usage(part).free
    if free_bytes < BUILD_SPACE_BYTES:
        raise BedError(
            f"building the kernel takes {BUILD_SPACE_BYTES / 1e9:.1f} GB for a while and {part.parent}"
            f" has {free_bytes / 1e9:.1f} GB; make room, or set XDG_CACHE_HOME"
        )
    jobs = len(os.sched_getaffinity(0))
    say(
        f"building a User-Mode Linux kernel from {archive.name} with {jobs} jobs:"
        f" about {max(1, round(9 / jobs))} minutes, once"
    )
    started = time.monotonic()
    tree, objects = part / "tree", part / "objects"
    tree.mkdir()
    objects.mkdir()
    make = ["make", *ARCHITECTURE, f"O={objects}"]
    merge = ["env", *ARCHITECTURE, "scripts/kconfig/merge_config.sh", "-m", "-O", str(objects)]
    with log_of(part).open("w") as log:
        unpack(log, tree, archive)
        keep_all_registers(tree)
        run_step(log, tree, *make, "tinyconfig")
        run_step(log, tree, *merge, str(objects / ".config"), str(CONFIG))
        run_step(log, tree, *make, "olddefconfig")
        check_config(CONFIG.read_text(), (objects / ".config").read_text())
        run_step(log, tree, *make, f"-j{jobs}", "linux")
    shutil.copy(objects / "linux", part / "linux")
    shutil.copy(objects / ".config", part / "config")
    shutil.rmtree(tree)
    shutil.rmtree(objects)
    say(f"the kernel is built, in {time.monotonic() - started:.0f} s")


def log_of(part: Path) -> Path:
    """Beside the finished kernel."""
    return part.parent / f"{part.name.partition('.part.')[0]}.log"


def run_step(log: IO[str], directory: Path, *command: str) -> None:
    """Runs it quietly; the error has the end of its output if it fails."""
    process = subprocess.Popen(
        command,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    try:
        status = process.wait(BUILD_LIMIT_S)
    except BaseException:
        process.terminate()  # make ends its jobs
        process.wait()
        raise
    if status != 0:
        lines = Path(log.name).read_text(errors="replace").splitlines()[-30:]
        raise BedError("\n".join([*lines, f"the kernel's build failed (all of it: {log.name})"]))


def unpack(log: IO[str], tree: Path, archive: Path) -> None:
    excluded = [f"--exclude={pattern}" for pattern in NOT_UNPACKED]
    command = ["tar", "--extract", "--strip-components=1", *excluded, "--file", str(archive)]
    run_step(log, tree, *command)


def keep_all_registers(tree: Path) -> None:
    applied = 0
    for name, old, new in EDITS:
        path = tree / name
        text = path.read_text() if path.is_file() else ""
        if old in text:
            path.write_text(text.replace(old, new))
            applied += 1
    if applied not in (0, len(EDITS)):
        raise BedError("this kernel source is not known; known to work is linux-source-6.12")


def check_config(wanted: str, got: str) -> None:
    """Raises BedError if `got` lacks options of `wanted`: configuring drops some silently."""
    taken = set(options(got))
    lost = [line for line in options(wanted) if line not in taken]
    if lost:
        raise BedError(
            f"this kernel source does not take {', '.join(lost)}; known to work is linux-source-6.12"
        )
