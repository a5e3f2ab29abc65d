# SPDX-License-Identifier: Apache-2.0
"""Libraries that need what is not there load with stand-ins, whose functions find no device."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest
from stand_in_libraries import NO_DEVICE, make_stand_ins

USER = """
extern int cudaTried(void), cuTriedToo(void), cublasTable[16];
int call_versioned(void) { return cudaTried(); }
int call_unversioned(void) { return cuTriedToo(); }
int read_data(void) { return cublasTable[15]; }
"""
# Of each library: what it has, and the version of it.
VENDORS = {
    "libstandin_runtime.so.9": ("int cudaTried(void) { return 1; }", "libstandin_runtime.so.9"),
    "libstandin_driver.so.1": ("int cuTriedToo(void) { return 1; }", ""),
    "libstandin_table.so.2": ("int cublasTable[16] = {1};", "TABLE"),
}


def link(target: Path, source: str, *options: str) -> None:
    command = ["cc", "-shared", "-fPIC", "-o", target, f"-Wl,-soname,{target.name}", "-x", "c", "-"]
    subprocess.run([*command, *options], input=source, text=True, check=True)


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """A library that was linked against three others, which are gone."""
    for name, (source, version) in VENDORS.items():
        script = tmp_path / "versions.map"
        script.write_text(f"{version} {{ global: *; }};" if version else "{ global: *; };")
        link(tmp_path / name, source, f"-Wl,--version-script={script}")
        script.unlink()
    there = [f"-l:{name}" for name in VENDORS]
    library = tmp_path / "libuser.so"
    link(library, USER, f"-L{tmp_path}", "-Wl,--no-as-needed", *there, "-Wl,-rpath,$ORIGIN,-z,now")
    for name in VENDORS:
        (tmp_path / name).unlink()
    return library


def test_a_library_loads_without_those_that_it_needs(user: Path) -> None:
    with pytest.raises(OSError, match=r"libstandin_\w+\.so"):
        ctypes.CDLL(str(user))
    assert make_stand_ins(user.parent) == sorted(VENDORS)
    loaded = ctypes.CDLL(str(user))
    assert loaded.call_versioned() == NO_DEVICE
    assert loaded.call_unversioned() == NO_DEVICE
    assert loaded.read_data() == 0


def test_nothing_is_made_where_nothing_is_missing(user: Path) -> None:
    make_stand_ins(user.parent)
    assert make_stand_ins(user.parent) == []
