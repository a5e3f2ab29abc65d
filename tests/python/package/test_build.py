# SPDX-License-Identifier: Apache-2.0
"""What setup.py makes of the torch that it finds: what it requires, and what it says. Nothing is compiled."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest
import setuptools
from launch import ROOT

import rocecoll

pytestmark = pytest.mark.quick

SOURCES = (
    "setup.py",
    "scripts/cpp_build.py",
    "scripts/index_page.py",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "_rocecoll_autoload.py",
)
# Names and patterns of what lies beside setuptools.
SETUPTOOLS = ("setuptools", "_distutils_hack")
TOOLS = ("setuptools-*", "pybind11*", "cmake*", "ninja*")
# As pip isolates a build: first on the path, it takes the environment's packages off it.
SITECUSTOMIZE = """
import sys
sys.path[:] = [path for path in sys.path if "site-packages" not in path]
"""


def link(directory: Path, *patterns: str) -> None:
    for pattern in patterns:
        for path in Path(setuptools.__file__).parents[1].glob(pattern):
            (directory / path.name).symlink_to(path)


class Bed:
    """A copy of what setup.py reads, and an environment of its own to run it in."""

    def __init__(self, directory: Path) -> None:
        self.source = directory / "source"
        packages = [path.relative_to(ROOT) for path in ROOT.glob("rocecoll/**/__init__.py")]
        for name in (*map(Path, SOURCES), *packages):
            (self.source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.source / name)
        self.environment = directory / "environment"
        venv.create(self.environment, symlinks=True)
        [self.packages] = self.environment.glob("lib/python*/site-packages")
        self.without_programs = directory / "no programs"
        self.without_programs.mkdir()

    def see_our_packages(self) -> None:
        (self.packages / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def put_torch(self, version: str) -> None:
        """Hides the one that our packages have."""
        (self.packages / "torch").mkdir()
        (self.packages / "torch" / "__init__.py").write_text(
            "class _C: _GLIBCXX_USE_CXX11_ABI = True\n"
        )
        information = self.packages / f"torch-{version}.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n"
        )

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name not in ("PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX")
        }
        return subprocess.run(
            [str(self.environment / "bin" / "python"), "setup.py", "--quiet", *command],
            cwd=self.source,
            env=inherited | variables,
            capture_output=True,
            text=True,
            check=False,
        )

    def built_for(self, **variables: str) -> list[str]:
        """Version and required torch of what would be built."""
        result = self.run("dist_info", **variables)
        assert result.returncode == 0, result.stderr
        [information] = self.source.glob("*.dist-info/METADATA")
        return facts(information)

    def refusal(self, **variables: str) -> str:
        result = self.run("dist_info", **variables)
        assert result.returncode == 1, result.stdout
        return result.stderr.partition("rocecoll: ")[2]


def facts(metadata: Path) -> list[str]:
    starts = ("Version: ", "Requires-Dist: torch")
    return [line for line in metadata.read_text().splitlines() if line.startswith(starts)]


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


@pytest.mark.parametrize("version", ["2.7.1", "2.13.0+cpu", "2.14.1", "2.15.0a0"])
def test_what_is_built_requires_the_release_that_it_is_built_for(bed: Bed, version: str) -> None:
    bed.see_our_packages()
    bed.put_torch(version)
    minor = ".".join(version.split(".")[:2])
    assert bed.built_for() == [
        f"Version: {rocecoll.__version__}+torch{minor}",
        f"Requires-Dist: torch=={minor}.*",
    ]


def test_an_sdist_needs_no_torch_and_takes_each_that_is_supported(bed: Bed) -> None:
    link(bed.packages, *SETUPTOOLS, *TOOLS)
    result = bed.run("egg_info")
    assert result.returncode == 0, result.stderr
    assert facts(bed.source / "rocecoll.egg-info" / "PKG-INFO") == [
        f"Version: {rocecoll.__version__}",
        "Requires-Dist: torch<2.16,>=2.7",
    ]


def test_an_index_is_told_the_home_that_is_known(bed: Bed) -> None:
    bed.see_our_packages()
    bed.put_torch("2.15.0")
    for variables, told in (({}, False), ({"ROCECOLL_HOME_URL": "https://example.org/o/r"}, True)):
        bed.built_for(**variables)
        [information] = bed.source.glob("*.dist-info/METADATA")
        text = information.read_text()
        assert "Description-Content-Type: text/markdown" in text
        assert ("Project-URL: Homepage, https://example.org/o/r\n" in text) == told
        assert ("](https://example.org/o/r/blob/v" in text) == told
        assert "](docs/" not in text
    assert bed.refusal(ROCECOLL_HOME_URL="nowhere") == (
        "ROCECOLL_HOME_URL='nowhere' is no address of a repository: accepted is one such as "
        "https://example.org/owner/rocecoll\n"
    )


def test_another_torch_is_refused_unless_asked_for(bed: Bed) -> None:
    bed.see_our_packages()
    bed.put_torch("2.99.0")
    assert bed.refusal() == (
        "missing for the build:\n"
        f"  - torch 2.7 to 2.15; {bed.packages}/torch is 2.99.0.\n"
        "    Install one of them, for example with `pip install 'torch==2.15.*'`. With "
        "ROCECOLL_BUILD_ANY_TORCH=1 before the command the build is tried with this one, with "
        "which nothing has been tested\n"
    )
    assert bed.built_for(ROCECOLL_BUILD_ANY_TORCH="1")[1:] == ["Requires-Dist: torch==2.99.*"]


def test_all_that_is_missing_is_told_at_once(bed: Bed) -> None:
    link(bed.packages, *SETUPTOOLS)
    python = bed.environment / "bin" / "python"
    assert bed.refusal(PATH=str(bed.without_programs), CXX="no-compiler") == (
        "missing for the build:\n"
        "  - setuptools>=77, cmake>=3.22, ninja, pybind11>=2.12: "
        "`pip install 'setuptools>=77' 'cmake>=3.22' ninja 'pybind11>=2.12'`\n"
        "  - a C++20 compiler: Debian and Ubuntu have it in g++\n"
        "  - torch 2.7 to 2.15, which is not in\n"
        f"      {python}: ModuleNotFoundError: No module named 'torch'\n"
        "    Install it first, for example with `pip install 'torch==2.15.*'`. If it is "
        "installed, this is an isolated build that cannot see it: run `pip install "
        "'setuptools>=77' 'cmake>=3.22' ninja 'pybind11>=2.12' && pip install "
        "--no-build-isolation .`\n"
    )


def test_an_isolated_build_finds_the_torch_of_its_environment(bed: Bed, tmp_path: Path) -> None:
    bed.put_torch("2.14.1")
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    (overlay / "sitecustomize.py").write_text(SITECUSTOMIZE)
    link(overlay, *SETUPTOOLS, *TOOLS)
    assert bed.built_for(PYTHONPATH=str(overlay))[1:] == ["Requires-Dist: torch==2.14.*"]


def test_an_environment_that_is_active_beside_the_build_is_asked(bed: Bed, tmp_path: Path) -> None:
    active = Bed(tmp_path / "active")
    active.put_torch("2.14.1")
    link(bed.packages, *SETUPTOOLS, *TOOLS)
    wanted = ["Requires-Dist: torch==2.14.*"]
    assert bed.built_for(VIRTUAL_ENV=str(active.environment))[1:] == wanted
