# SPDX-License-Identifier: Apache-2.0
"""The README says what the code has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from launch import ROOT, torchrun

pytestmark = pytest.mark.quick


def test_readme_lists_every_option() -> None:
    from rocecoll.options import TABLE

    listed = re.findall(r"^\| `(ROCECOLL_\w+)` \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(option.variable for option in TABLE)


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(document: str) -> None:
    for target in re.findall(r"\]\(([^):#]+)\)", (ROOT / document).read_text()):
        assert (ROOT / target).exists(), f"{document} links to {target}"


def test_readme_program_runs(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    program.write_text(code)
    assert "rank 1 of 2: [1.0, 1.0, 1.0, 1.0]" in torchrun(2, program)
