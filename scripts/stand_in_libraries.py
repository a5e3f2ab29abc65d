# SPDX-License-Identifier: Apache-2.0
"""Makes stand-ins for the NVIDIA libraries that a CUDA build of torch needs to be imported at all.

pip's wheels of most releases of torch are CUDA builds, and those libraries take gigabytes. On a machine
without a GPU none of their functions does anything: a stand-in has the names and symbol versions that
torch's own libraries ask for, and every function returns that there is no device.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from elftools.elf.elffile import ELFFile

NO_DEVICE = 100  # cudaErrorNoDevice, and of the driver CUDA_ERROR_NO_DEVICE
DATA_BYTES = 4096  # the size of a variable, which the libraries that use it do not tell
# Prefixes of symbols that have no version, which would name their library.
PREFIXES = ("cu", "__cu", "nccl", "nv", "__nv")
CPP_PARTS = ("cudnn", "nccl", "nvshmem")


@dataclass
class Wanted:
    """What a set of shared libraries needs from others."""

    needed: set[str] = field(default_factory=set)  # names of libraries
    defined: set[str] = field(default_factory=set)  # symbols, as the others
    unversioned: set[str] = field(default_factory=set)
    data: set[str] = field(default_factory=set)
    versioned: dict[str, dict[str, set[str]]] = field(  # by library and version
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )

    def add(self, library: Path) -> None:
        with library.open("rb") as file:
            elf = ELFFile(file)
            for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED"):
                self.needed.add(tag.needed)
            versions = symbol_versions(elf)
            indices = elf.get_section_by_name(".gnu.version")
            for number, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
                if not symbol.name or symbol["st_info"]["bind"] == "STB_WEAK":
                    continue
                if symbol["st_shndx"] != "SHN_UNDEF":
                    self.defined.add(symbol.name)
                    continue
                if symbol["st_info"]["type"] == "STT_OBJECT":
                    self.data.add(symbol.name)
                index = indices.get_symbol(number)["ndx"] if indices else None
                if index in versions:
                    file_name, version = versions[index]
                    self.versioned[file_name][version].add(symbol.name)
                else:
                    self.unversioned.add(symbol.name)


def symbol_versions(elf: ELFFile) -> dict[int, tuple[str, str]]:
    """By index in .gnu.version: the library that has the version, and the version's name."""
    needs = elf.get_section_by_name(".gnu.version_r")
    return {
        one["vna_other"]: (library.name, one.name)
        for library, found in (needs.iter_versions() if needs else ())
        for one in found
    }


def loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def is_nvidias(symbol: str) -> bool:
    mangled = symbol.startswith("_Z") and any(part in symbol for part in CPP_PARTS)
    return mangled or symbol.startswith(PREFIXES)


def build(
    target: Path, symbols: Iterable[str], data: set[str], versions: dict[str, set[str]]
) -> None:
    lines = [
        f"char {name}[{DATA_BYTES}];"
        if name in data
        else f"int {name}(void) {{ return {NO_DEVICE}; }}"
        for name in sorted(symbols)
    ]
    script = "".join(
        f"{version} {{ global: {' '.join(f'{name};' for name in sorted(names))} }};\n"
        for version, names in versions.items()
    )
    with tempfile.TemporaryDirectory(prefix="rocecoll-stand-in-") as directory:
        source = Path(directory, "stand_in.c")
        source.write_text("\n".join(lines) + "\n")
        command = ["cc", "-w", "-shared", "-fPIC", "-fno-builtin", f"-Wl,-soname,{target.name}"]
        if script:
            map_file = Path(directory, "versions.map")
            map_file.write_text(script)
            command.append(f"-Wl,--version-script={map_file}")
        subprocess.run([*command, "-o", str(target), str(source)], check=True)


def make_stand_ins(directory: Path) -> list[str]:
    """Puts stand-ins for libraries that those in `directory` need, and that do not load here, beside them,
    where the loader looks first. Returns their names."""
    libraries = sorted(directory.glob("*.so*"))
    wanted = Wanted()
    for library in libraries:
        wanted.add(library)
    there = {library.name for library in libraries}
    missing = sorted(name for name in wanted.needed - there if not loads(name))
    # Any library may define these: the loader searches all of them.
    loose = {name for name in wanted.unversioned - wanted.defined if is_nvidias(name)}
    for name in missing:
        versions = wanted.versioned[name]
        build(directory / name, loose.union(*versions.values()), wanted.data, versions)
        loose = set()
    return missing
