# SPDX-License-Identifier: Apache-2.0
"""The rocecoll that is checked: this tree's if it is installed, a wheel, or one that is built here.

Nothing is fetched, and the interpreter's own packages stay as they are: what is made goes into a folder
of build/. Needs no torch in this process, which has to find what is made before it loads torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "gpu_check"
PIP = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--upgrade", "--quiet"]
ASK = """
import torch, rocecoll
from rocecoll import _c10d
print(rocecoll.__file__, torch.__version__, sep="\\n")
"""
ASK_LIMIT_S = 120.0
TAIL = 3000


class NothingToCheckError(Exception):
    """The text says why."""


@dataclass(frozen=True)
class Installation:
    how: str  # for the report
    folder: Path | None  # that has to be on the path


def found(folder: Path | None) -> tuple[Path, str] | str:
    """Where rocecoll is loaded from, and torch's version; or why not."""
    asked = subprocess.run(
        [sys.executable, "-c", ASK],
        cwd="/",  # a source tree in the current directory would stand before everything
        env=os.environ | ({} if folder is None else path_with(folder)),
        capture_output=True,
        text=True,
        timeout=ASK_LIMIT_S,
        check=False,
    )
    if asked.returncode != 0:
        return (asked.stderr.strip().splitlines() or ["no answer"])[-1]
    file, version = asked.stdout.strip().splitlines()[-2:]
    return Path(file).resolve(), version


def path_with(folder: Path) -> dict[str, str]:
    behind = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(folder), behind)))}


def prepare(wheel: Path | None, installed: bool, limit_s: float) -> Installation:
    """Raises NothingToCheckError."""
    there = found(None) if wheel is None else "not asked"
    if not isinstance(there, str):
        if there[0].is_relative_to(ROOT):
            return Installation("installed from this tree", None)
        if installed:
            return Installation(f"installed in {there[0].parent}", None)
    if installed:
        raise NothingToCheckError(f"{sys.executable} has no rocecoll that can be used: {there}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    site = FOLDER / f"site-{sys.implementation.cache_tag}"
    if wheel is None:
        # In the tree, so that a second time compiles only what has changed.
        command = [*PIP, "--no-build-isolation", "--target", str(site), str(ROOT)]
        how = "built from this tree"
    else:
        command, how = [*PIP, "--target", str(site), str(wheel.resolve())], f"{wheel.name}"
    install(command, limit_s)
    there = found(site)
    if isinstance(there, str):
        raise NothingToCheckError(f"{how}, but it cannot be loaded: {there}")
    return Installation(how, site)


def install(command: list[str], limit_s: float) -> None:
    log = FOLDER / "installation.log"
    print(f"gpu_check: {' '.join(command)}", flush=True)
    with log.open("w") as output:
        try:
            status = subprocess.run(
                command,
                cwd=FOLDER,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=limit_s,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            raise NothingToCheckError(f"not built in {limit_s:.0f} s (see {log})") from None
    if status != 0:
        raise NothingToCheckError(f"{log.read_text(errors='replace')[-TAIL:]}(whole output: {log})")
