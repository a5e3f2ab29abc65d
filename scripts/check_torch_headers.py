# SPDX-License-Identifier: Apache-2.0
"""Compiles csrc/torch against the headers of another torch, without installing it.

Of the wheel only the headers are fetched, 10 MB; nothing is built or linked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer
from pip._internal.network.lazy_wheel import LazyZipOverHTTP
from pip._internal.network.session import PipSession

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = "torch/include/"


def find_wheel(version: str) -> tuple[str, str]:
    """Version and address of the wheel that pip would install here; `version` empty: the newest."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--quiet"]
    command += ["--ignore-installed", "--only-binary", ":all:", "--report", "-"]
    wanted = f"torch=={version}" if version else "torch"
    asked = subprocess.run([*command, wanted], stdout=subprocess.PIPE, text=True, check=True)
    [found] = json.loads(asked.stdout)["install"]
    return found["metadata"]["version"], found["download_info"]["url"]


def fetch_headers(wheel: str, target: Path) -> Path:
    with LazyZipOverHTTP(wheel, PipSession()) as remote, zipfile.ZipFile(remote) as archive:
        headers = [one for one in archive.infolist() if one.filename.startswith(INCLUDE)]
        first = min(one.header_offset for one in headers)
        last = max(one.header_offset + one.compress_size for one in headers)
        # One request instead of one for each of thousands of files; they lie side by side.
        remote._download(first, last + 65536)
        archive.extractall(target, headers)
    return target / INCLUDE


def check(source: Path, include: Path) -> bool:
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", "-fPIC"]
    command += ["-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'csrc'}"]
    for directory in (include, include / "torch/csrc/api/include", sysconfig.get_path("include")):
        command += ["-isystem", str(directory)]
    passed = subprocess.run([*command, str(source)], check=False).returncode == 0
    print(f"{'ok' if passed else 'FAILED':7}{source.relative_to(ROOT)}", flush=True)
    return passed


def main(
    version: Annotated[str, typer.Argument(help="such as 2.15.0; else the newest")] = "",
) -> None:
    version, wheel = find_wheel(version)
    with tempfile.TemporaryDirectory(prefix="rocecoll-headers-") as directory:
        include = fetch_headers(wheel, Path(directory))
        sources = sorted((ROOT / "csrc" / "torch").rglob("*.cc"))
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            results = list(pool.map(lambda source: check(source, include), sources))
    print(f"torch {version}: {sum(results)} of {len(results)} files of csrc/torch compile")
    raise SystemExit(not all(results))


if __name__ == "__main__":
    typer.run(main)
