# SPDX-License-Identifier: Apache-2.0
"""The C++ programs of scripts/bench: built again when anything that they are made of has changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from benchmarks import native

pytestmark = pytest.mark.quick


def test_what_is_newer_than_all_that_it_is_made_of_is_current(tmp_path: Path) -> None:
    source, header, made, listed = (
        tmp_path / name for name in ("a program.cc", "random.h", "a program", "a program.d")
    )
    for path in (source, header, made):
        path.touch()
        os.utime(path, (1, 1))
    os.utime(made, (2, 2))
    assert not native.is_current(made, listed)
    spaced = str(source).replace(" ", "\\ ")
    listed.write_text(f"made: {spaced} \\\n {header}\n")
    assert native.is_current(made, listed)
    for path in (source, header):
        os.utime(path, (3, 3))
        assert not native.is_current(made, listed)
        os.utime(path, (1, 1))
    header.unlink()
    assert not native.is_current(made, listed)


def test_the_compiler_lists_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "BUILD", tmp_path)
    made = native.build_program("delay_line")
    assert native.is_current(made, made.with_suffix(".d"))
    assert "base/random.h" in made.with_suffix(".d").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["delay_line", "delay_line.d"]
