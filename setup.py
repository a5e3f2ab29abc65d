# SPDX-License-Identifier: Apache-2.0
"""Builds the core, its RoCE plug-in, _core and _c10d with CMake against the installed torch."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
TORCH_MINOR = "2.13"  # the release whose c10d interface csrc/torch is written for
HOW = "install it first and build with `pip install --no-build-isolation .`"


def fail(message: str) -> NoReturn:
    sys.exit(f"rocecoll: {message}")


# What the build asks of torch, printed by an interpreter that has it.
ASK_TORCH = """
import importlib.metadata, torch
print(torch.__path__[0], importlib.metadata.version("torch"), int(torch._C._GLIBCXX_USE_CXX11_ABI))
"""


@dataclass(frozen=True)
class Torch:
    directory: str
    version: str
    cxx11_abi: str


def find_torch() -> Torch:
    """This interpreter's torch; in an isolated build the active environment's."""
    pythons = [sys.executable]
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if variable in os.environ:
            pythons.append(os.path.join(os.environ[variable], "bin", "python"))
    for python in pythons:
        if not os.path.exists(python):
            continue
        asked = subprocess.run(
            [python, "-c", ASK_TORCH], capture_output=True, text=True, check=False
        )
        if asked.returncode != 0:
            continue
        torch = Torch(*asked.stdout.split("\n")[-2].rsplit(" ", 2))
        if torch.version.split(".")[:2] != TORCH_MINOR.split("."):
            fail(f"building needs torch {TORCH_MINOR}, {python} has {torch.version}")
        return torch
    fail(f"building needs torch {TORCH_MINOR} in {' or '.join(pythons)}: {HOW}")


def find_tool(name: str) -> str:
    beside_python = os.path.dirname(sys.executable)
    found = shutil.which(name, path=os.pathsep.join([beside_python, os.environ.get("PATH", "")]))
    if found is None:
        fail(f"building needs {name}: {HOW}, for example with `pip install {name}`")
    return found


def find_pybind11() -> str:
    if importlib.util.find_spec("pybind11") is None:
        fail(f"building needs pybind11: {HOW}, with `pip install pybind11`")
    import pybind11

    return pybind11.get_cmake_dir()


class CMakeBuild(build_ext):
    """One CMake build for all extensions, in a directory that is kept: ninja knows what changed."""

    def run(self) -> None:
        torch = find_torch()
        cmake, ninja = find_tool("cmake"), find_tool("ninja")
        tag = f"{sysconfig.get_config_var('SOABI')}-torch-{torch.version}"
        build = ROOT / "build" / tag
        in_place = self.inplace or getattr(self, "editable_mode", False)
        package = (ROOT if in_place else Path(self.build_lib).resolve()) / "rocecoll"
        self.call(
            cmake,
            "-S",
            str(ROOT / "csrc"),
            "-B",
            str(build),
            "-G",
            "Ninja",
            f"-DCMAKE_MAKE_PROGRAM={ninja}",
            f"-DPython3_EXECUTABLE={sys.executable}",
            f"-Dpybind11_DIR={find_pybind11()}",
            "-DROCECOLL_PYTHON=ON",
            "-DROCECOLL_UNITY=ON",
            f"-DROCECOLL_TORCH_DIR={torch.directory}",
            f"-DROCECOLL_TORCH_CXX11_ABI={torch.cxx11_abi}",
        )
        jobs = ["-j", str(self.parallel)] if self.parallel else []
        self.call(cmake, "--build", str(build), *jobs)
        package.mkdir(parents=True, exist_ok=True)
        # Of an earlier build, whose machine had libibverbs.
        (package / "librocecoll_verbs.so").unlink(missing_ok=True)
        self.call(cmake, "--install", str(build), "--prefix", str(package))
        (package / "_build_info.py").write_text(
            "# SPDX-License-Identifier: Apache-2.0\n"
            '"""Written by setup.py."""\n\n'
            f'TORCH_VERSION = "{torch.version}"\n'
        )

    def call(self, *command: str) -> None:
        print("+", *command, flush=True)
        status = subprocess.run(command, check=False).returncode
        if status != 0:
            fail(f"`{' '.join(command[:3])} ...` ended with status {status}, see above")


setup(
    ext_modules=[Extension("rocecoll._core", []), Extension("rocecoll._c10d", [])],
    cmdclass={"build_ext": CMakeBuild},
)
