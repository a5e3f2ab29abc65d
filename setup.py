# SPDX-License-Identifier: Apache-2.0
"""Builds the core, its RoCE plug-in, _core and _c10d with CMake against the installed torch.

What is built serves the minor release of torch that it was built against, and says so: in its
version, as in 0.1.0+torch2.14, and in the torch that it requires. An sdist serves all of them.
"""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "scripts"))
from cpp_build import build_directory  # noqa: E402
from index_page import HOME_URL, checked_home, long_description, project_urls  # noqa: E402

# Whose c10d interface csrc/torch knows, and that the tests have run with.
TORCH_MINORS = ("2.7", "2.8", "2.9", "2.10", "2.11", "2.12", "2.13", "2.14", "2.15")
DEPENDENCIES = ["psutil>=5.9", "rich>=13.8", "typer>=0.12"]  # beside torch
# The commands that need torch and tools. An sdist can be made without.
BUILDING = {"build", "build_ext", "bdist_wheel", "dist_info", "editable_wheel"}

ANY_TORCH = "ROCECOLL_BUILD_ANY_TORCH"
SUPPORTED = f"torch {TORCH_MINORS[0]} to {TORCH_MINORS[-1]}"
INSTALL_TORCH = f"`pip install 'torch=={TORCH_MINORS[-1]}.*'`"


def fail(message: str) -> NoReturn:
    sys.exit(f"rocecoll: {message}")


# What the build asks of torch, printed by an interpreter that has it.
ASK_TORCH = """
import importlib.metadata, torch
print(torch.__path__[0], importlib.metadata.version("torch"), int(torch._C._GLIBCXX_USE_CXX11_ABI),
      getattr(torch._C, "_PYBIND11_BUILD_ABI", None) or "any")
"""


@dataclass(frozen=True)
class Torch:
    directory: str
    version: str
    cxx11_abi: str
    pybind11_abi: str  # "any": modules share types whatever compiler built them

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])


class NoTorchError(Exception):
    """The text says what is needed and how to get it."""


def interpreters() -> list[list[str]]:
    """Those that may have torch; the first is the one that builds.

    An isolated build hides from that one what its environment has: pip by a PYTHONPATH, which -E
    ignores; others build in an environment of their own, so the active one is asked, too.
    """
    found = [[sys.executable], [sys.executable, "-E"]]
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        python = os.path.join(os.environ.get(variable, ""), "bin", "python")
        if variable in os.environ and os.path.exists(python):
            found.append([python, "-E"])
    return found


@functools.cache
def find_torch() -> Torch:
    answers = {}
    for python in interpreters():
        asked = subprocess.run(
            [*python, "-c", ASK_TORCH], capture_output=True, text=True, check=False
        )
        if asked.returncode == 0:
            torch = Torch(*asked.stdout.split("\n")[-2].rsplit(" ", 3))
            check_supported(torch)
            return torch
        answers[python[0]] = (asked.stderr.strip().splitlines() or ["no answer"])[-1]
    asked_ones = "".join(f"\n      {python}: {answer}" for python, answer in answers.items())
    raise NoTorchError(
        f"{SUPPORTED}, which is not in{asked_ones}\n"
        f"    Install it first, for example with {INSTALL_TORCH}. If it is installed, this is an "
        f"isolated build that cannot see it: run `{install_without_isolation()}`"
    )


def check_supported(torch: Torch) -> None:
    if torch.minor in TORCH_MINORS or os.environ.get(ANY_TORCH) == "1":
        return
    raise NoTorchError(
        f"{SUPPORTED}; {torch.directory} is {torch.version}.\n"
        f"    Install one of them, for example with {INSTALL_TORCH}. With {ANY_TORCH}=1 before the "
        "command the build is tried with this one, with which nothing has been tested"
    )


def build_requirements() -> list[str]:
    """As pyproject.toml has them. Python 3.10 cannot read TOML."""
    text = (ROOT / "pyproject.toml").read_text()
    [found] = re.findall(r"^requires = (\[.*\])$", text, re.MULTILINE)
    return list(ast.literal_eval(found))


def pip_install(requirements: list[str]) -> str:
    return f"pip install {shlex.join(requirements)}"


def install_without_isolation() -> str:
    return f"{pip_install(build_requirements())} && pip install --no-build-isolation ."


def find_tool(name: str) -> str | None:
    beside_python = os.path.dirname(sys.executable)
    return shutil.which(name, path=os.pathsep.join([beside_python, os.environ.get("PATH", "")]))


def numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def is_there(requirement: str) -> bool:
    """As a Python package that is new enough, or as a program of the system."""
    name, _, oldest = requirement.partition(">=")
    try:
        return numbers(importlib.metadata.version(name)) >= numbers(oldest)
    except importlib.metadata.PackageNotFoundError:
        return find_tool(name) is not None


def missing_tools() -> list[str]:
    missing = []
    if tools := [one for one in build_requirements() if not is_there(one)]:
        missing.append(f"{', '.join(tools)}: `{pip_install(tools)}`")
    compilers = [*os.environ.get("CXX", "").split()[:1], "c++", "g++", "clang++"]
    if not any(map(shutil.which, compilers)):
        missing.append("a C++20 compiler: Debian and Ubuntu have it in g++")
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        missing.append("the headers of Python: Debian and Ubuntu have them in python3-dev")
    return missing


def torch_to_build_for() -> Torch:
    """Whatever is missing is told at once."""
    missing = missing_tools()
    try:
        torch = find_torch()
        if not missing:
            return torch
    except NoTorchError as error:
        missing.append(str(error))
    fail("missing for the build:" + "".join(f"\n  - {one}" for one in missing))


def index_page(version: str) -> dict[str, str | dict[str, str]]:
    """What a package index shows. The tag of a version is the same for every torch."""
    try:
        home = checked_home(os.environ.get(HOME_URL, ""))
    except ValueError as error:
        fail(str(error))
    return {
        "long_description": long_description((ROOT / "README.md").read_text(), home, version),
        "long_description_content_type": "text/markdown",
        "project_urls": project_urls(home, version),
    }


def metadata() -> dict[str, str | list[str] | dict[str, str]]:
    text = (ROOT / "rocecoll" / "__init__.py").read_text()
    [version] = re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    page = index_page(version)
    if BUILDING.isdisjoint(sys.argv):
        major, minor = numbers(TORCH_MINORS[-1])
        torch = f"torch>={TORCH_MINORS[0]},<{major}.{minor + 1}"
    else:
        minor_release = torch_to_build_for().minor
        version = f"{version}+torch{minor_release}"
        torch = f"torch=={minor_release}.*"
    return {"version": version, "install_requires": [torch, *DEPENDENCIES], **page}


class BuildWithPages(build_py):
    """The pages that `rocecoll explain` reads go along; a source tree has them in docs."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            pages = Path(self.build_lib) / "rocecoll" / "diagnosis" / "pages"
            pages.mkdir(parents=True, exist_ok=True)
            for page in (ROOT / "docs").glob("*.md"):
                if "\n| says | because | cure |\n" in page.read_text(encoding="utf-8"):
                    shutil.copyfile(page, pages / page.name)


class CMakeBuild(build_ext):
    """One CMake build for all extensions, in a directory that is kept: ninja knows what changed."""

    def run(self) -> None:
        import pybind11

        torch = torch_to_build_for()
        cmake = find_tool("cmake")
        build = build_directory(torch.version)
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
            f"-DCMAKE_MAKE_PROGRAM={find_tool('ninja')}",
            f"-DPython3_EXECUTABLE={sys.executable}",
            f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
            "-DROCECOLL_PYTHON=ON",
            "-DROCECOLL_UNITY=ON",
            f"-DROCECOLL_TORCH_DIR={torch.directory}",
            f"-DROCECOLL_TORCH_CXX11_ABI={torch.cxx11_abi}",
            f"-DROCECOLL_TORCH_PYBIND11_ABI={torch.pybind11_abi}",
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
            f"TORCH_MINORS = {TORCH_MINORS!r}\n"
        )

    def call(self, *command: str) -> None:
        print("+", *command, flush=True)
        status = subprocess.run(command, check=False).returncode
        if status != 0:
            fail(f"`{' '.join(command[:3])} ...` ended with status {status}, see above")


if __name__ == "__main__":
    setup(
        ext_modules=[Extension("rocecoll._core", []), Extension("rocecoll._c10d", [])],
        cmdclass={"build_ext": CMakeBuild, "build_py": BuildWithPages},
        **metadata(),
    )
