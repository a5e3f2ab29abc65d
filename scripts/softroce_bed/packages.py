# SPDX-License-Identifier: Apache-2.0
"""System packages of a bed: groups of scripts/system_packages.txt, by way of scripts/setup."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from softroce_bed.bed import BedError, ImpossibleError

SETUP = Path(__file__).resolve().parent.parent / "setup"


def missing(*groups: str) -> list[str]:
    run = subprocess.run([SETUP, "missing", *groups], stdout=subprocess.PIPE, text=True, check=True)
    return run.stdout.split()


def install(*groups: str) -> None:
    """Says what it installs; nothing if all is there."""
    lacking = missing(*groups)
    if lacking and (os.geteuid() != 0 or not shutil.which("apt-get")):
        raise ImpossibleError(
            f"packages are missing that only root can install: apt-get install {' '.join(lacking)}"
        )
    if lacking and subprocess.run([SETUP, "packages", *groups], check=False).returncode != 0:
        raise BedError(f"cannot install {' '.join(lacking)} (see above)")
