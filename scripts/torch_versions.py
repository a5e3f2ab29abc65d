# SPDX-License-Identifier: Apache-2.0
"""Builds rocecoll with other releases of torch and runs the Python tests and PyTorch's own suite.

Each release has a folder build/torch-MINOR: an environment, and a copy of this tree as it is. A release
whose wheel is a CUDA build (0.5 GB) gets stand-ins for the libraries that the CPU does not need.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Annotated

import typer
from stand_in_libraries import make_stand_ins

ROOT = Path(__file__).resolve().parent.parent
TESTS = [f"tests/python/{room}" for room in ("collectives", "groups", "failures", "frameworks")]
# Packages for the GPU that pip would install.
FOR_THE_GPU = re.compile(r"nvidia|cuda|triton")
ASK_REQUIREMENTS = """
from importlib.metadata import requires
print(*(one for one in requires("torch") if "extra ==" not in one), sep="\\n")
"""
ASK_LIBRARIES = """
from importlib.util import find_spec
print(*find_spec("torch").submodule_search_locations)
"""


def run(*command: str | Path, check: bool = True, cwd: Path = ROOT, **variables: str) -> bool:
    """Whether the command succeeded."""
    words = [str(word) for word in command]
    print("+", *words, flush=True)
    environment = {**os.environ, **variables}
    return subprocess.run(words, cwd=cwd, env=environment, check=check).returncode == 0


def ask(python: Path, question: str) -> str:
    asked = subprocess.run([python, "-c", question], stdout=subprocess.PIPE, text=True, check=True)
    return asked.stdout.strip()


def make_environment(directory: Path, minor: str) -> Path:
    """The Python of an environment that has this torch and can import it."""
    python = directory / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(directory / "venv", with_pip=True)
    pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet"]
    # Constraints that this machine sets for pip are for packages that are installed here.
    run(*pip, "--no-deps", f"torch=={minor}.*", PIP_CONSTRAINT=os.devnull)
    wanted = ask(python, ASK_REQUIREMENTS).splitlines()
    run(*pip, *(one for one in wanted if not FOR_THE_GPU.match(one)))
    stand_ins = make_stand_ins(Path(ask(python, ASK_LIBRARIES)) / "lib")
    print(f"torch {minor}: {len(stand_ins)} stand-ins made", flush=True)
    print(ask(python, "import torch; print('torch', torch.__version__, 'can be imported')"))
    return python


def copy_tree(target: Path) -> None:
    """Copies all files that git tracks or would add, as they are now. The copy keeps what it has built."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    for room in ("csrc", "tests"):  # whatever is there is built or run, also what is gone here
        shutil.rmtree(target / room, ignore_errors=True)
    for name in filter(None, listed.stdout.split("\0")):
        source, copy = ROOT / name, target / name
        if source.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)


def check(minor: str, quick: bool, suite: bool) -> bool:
    directory = ROOT / "build" / f"torch-{minor}"
    tree = directory / "tree"
    python = make_environment(directory, minor)
    copy_tree(tree)
    run(tree / "scripts" / "setup", "test", cwd=tree, ROCECOLL_PYTHON=str(python))
    path = os.pathsep.join([str(python.parent), os.environ["PATH"]])
    tests = [python, "-m", "pytest", "-q", "-n", "2", *TESTS, *(["--quick"] if quick else [])]
    passed = run(*tests, check=False, cwd=tree, PATH=path)
    if suite:
        passed &= passes_as_gloo(python, tree)
    print(f"torch {minor}: {'passed' if passed else 'failed'}", flush=True)
    return passed


def passes_as_gloo(python: Path, tree: Path) -> bool:
    """Whether PyTorch's own suite passes wherever gloo of the same torch does."""
    suite: list[str | Path] = [python, "scripts/torch_suite.py"]
    results = tree / "build" / "gloo.txt"
    run(*suite, "--backend", "gloo", "--out", results, check=False, cwd=tree)
    return run(*suite, "--baseline", results, check=False, cwd=tree)


def main(
    minors: Annotated[list[str], typer.Argument(help="minor releases, such as 2.11")],
    quick: Annotated[bool, typer.Option(help="only the tests that are marked quick")] = True,
    suite: Annotated[bool, typer.Option(help="PyTorch's own suite too, with 3 ranks")] = True,
) -> None:
    """Exit status 1: with at least one of them something fails."""
    passed = [check(minor, quick, suite) for minor in minors]
    sys.exit(not all(passed))


if __name__ == "__main__":
    typer.run(main)
