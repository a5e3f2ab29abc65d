# SPDX-License-Identifier: Apache-2.0
"""Compiles csrc/torch against the headers of another torch, without installing it.

Only the headers of the wheel are fetched, 10 MB; nothing is built or linked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit
from urllib.request import url2pathname

import typer
from pip._internal.exceptions import NetworkConnectionError
from pip._internal.network.lazy_wheel import HTTPRangeRequestUnsupported, LazyZipOverHTTP
from pip._internal.network.session import PipSession
from pip._vendor.requests.exceptions import RequestException

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = "torch/include/"
UNREACHABLE = 3  # exit status: there was nothing to compile against


class UnreachableError(Exception):
    """There is no such wheel, or no registry can be reached."""


def find_wheel(version: str) -> tuple[str, str]:
    """Version and address of the wheel that pip would install here; `version` empty: the newest."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--quiet"]
    command += ["--ignore-installed", "--only-binary", ":all:", "--report", "-"]
    command += ["--retries", "1", "--timeout", "20"]
    wanted = f"torch=={version}" if version else "torch"
    # Constraints that this machine sets for pip are for packages that are installed here.
    environment = {**os.environ, "PIP_CONSTRAINT": os.devnull}
    asked = subprocess.run(
        [*command, wanted], capture_output=True, text=True, check=False, env=environment
    )
    if asked.returncode != 0:
        raise UnreachableError((asked.stderr.strip().splitlines() or ["no answer from pip"])[-1])
    [found] = json.loads(asked.stdout)["install"]
    return found["metadata"]["version"], found["download_info"]["url"]


def fetch_headers(wheel: str, target: Path) -> Path:
    if urlsplit(wheel).scheme == "file":
        with zipfile.ZipFile(url2pathname(urlsplit(wheel).path)) as archive:
            archive.extractall(target, headers_of(archive))
        return target / INCLUDE
    try:
        with (
            LazyZipOverHTTP(wheel, PipSession(retries=1)) as remote,
            zipfile.ZipFile(remote) as archive,
        ):
            headers = headers_of(archive)
            first = min(one.header_offset for one in headers)
            last = max(one.header_offset + one.compress_size for one in headers)
            # One request instead of one for each of thousands of files; they lie side by side.
            remote._download(first, last + 65536)
            archive.extractall(target, headers)
    except (RequestException, NetworkConnectionError, HTTPRangeRequestUnsupported) as error:
        raise UnreachableError(f"{wheel}: {error}") from error
    return target / INCLUDE


def headers_of(wheel: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    return [one for one in wheel.infolist() if one.filename.startswith(INCLUDE)]


def compiles(sources: list[Path], include: Path) -> bool:
    """Compiles all files as one unit: torch's headers take most of the time."""
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", "-fPIC"]
    command += ["-Wall", "-Wextra", "-Wundef", "-Werror", f"-I{ROOT / 'csrc'}"]
    for directory in (include, include / "torch/csrc/api/include", sysconfig.get_path("include")):
        command += ["-isystem", str(directory)]
    text = "".join(f'#include "{source}"\n' for source in sources)
    passed = subprocess.run([*command, "-x", "c++", "-"], input=text, text=True, check=False)
    return passed.returncode == 0


def main(
    version: Annotated[
        str, typer.Argument(help="such as 2.15.0, or 2.15.* for its newest; else the newest")
    ] = "",
) -> None:
    """Exit status 1: does not compile; 3: there is no such wheel, or no registry to have it from."""
    with tempfile.TemporaryDirectory(prefix="rocecoll-headers-") as directory:
        try:
            found, wheel = find_wheel(version)
            include = fetch_headers(wheel, Path(directory))
        except UnreachableError as error:
            print(f"torch {version}: nothing to compile against: {error}")
            raise SystemExit(UNREACHABLE) from error
        sources = sorted((ROOT / "csrc" / "torch").rglob("*.cc"))
        passed = compiles(sources, include)
    verdict = "compiles" if passed else "does not compile"
    print(f"torch {found}: csrc/torch {verdict}, {len(sources)} files")
    raise SystemExit(not passed)


if __name__ == "__main__":
    typer.run(main)
