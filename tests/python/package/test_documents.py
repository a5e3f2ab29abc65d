# SPDX-License-Identifier: Apache-2.0
"""The README says what the code has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from launch import ROOT, torchrun

from rocecoll._core import STAT_NAMES, Option
from rocecoll.options import table, variable

pytestmark = pytest.mark.quick


# How the README puts a default that stands for no choice at all.
NO_CHOICE = {
    "socket_ifname": "",
    "ib_hca": "",
    "port_range": "any",
    "algorithm": "by size",
    "fault": "none",
    "replace": "none",
}


def option_rows() -> dict[str, str]:
    """The default by variable, from the README's table."""
    rows = re.findall(
        r"^\| `(ROCECOLL_\w+)` \|([^|]*)\| \S[^|]* \|$",
        (ROOT / "README.md").read_text(),
        re.MULTILINE,
    )
    assert len(rows) == len(dict(rows)), "a variable is listed twice"
    return {variable: default.strip() for variable, default in rows}


def test_readme_lists_every_option() -> None:
    assert sorted(option_rows()) == sorted(map(variable, table()))


@pytest.mark.parametrize("option", table().values(), ids=lambda option: option.name)
def test_readme_has_the_default(option: Option) -> None:
    """Value and unit; the unit is left out where the variable's name ends in it, and of auto."""
    listed = option_rows()[variable(option.name)]
    if option.name in NO_CHOICE:
        assert not option.default or option.default == (0, 0)
        assert listed == NO_CHOICE[option.name]
        return
    value, _, unit = listed.strip("`").partition(" ")
    assert option.read(value, "README.md") == option.default
    named = option.name.endswith(f"_{option.unit}")
    assert unit == ("" if named or value == "auto" else option.unit)


def test_every_counter_is_explained() -> None:
    text = (ROOT / "docs" / "observability.md").read_text().partition("## Counters")[2]
    named = re.findall(r"`((?:bytes|packets)_\w+)`", text.partition("\n## ")[0])
    assert sorted(set(named)) == sorted(STAT_NAMES)


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(document: str) -> None:
    for target in re.findall(r"\]\(([^):#]+)\)", (ROOT / document).read_text()):
        assert (ROOT / target).exists(), f"{document} links to {target}"


@pytest.mark.parametrize(
    ("document", "printed"),
    [
        ("README.md", "rank 1 of 2: [1.0, 1.0, 1.0, 1.0]"),
        ("docs/migration.md", "rank 1 has moved from gloo to rocecoll"),
    ],
)
def test_program_runs(tmp_path: Path, document: str, printed: str) -> None:
    """The Python blocks of a document, one after the other, are a program."""
    program = tmp_path / "program.py"
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    program.write_text("\n".join(blocks))
    assert printed in torchrun(2, program)
