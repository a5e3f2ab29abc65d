# SPDX-License-Identifier: Apache-2.0
"""The README says what the code has."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import option_docs
import pytest
from launch import ROOT, torchrun

import rocecoll
from rocecoll.options import table

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("path", "written"),
    [(option_docs.README, option_docs.readme), (option_docs.STUB, option_docs.stub)],
    ids=["README", "stub"],
)
def test_options_are_described_as_in_their_table(path: Path, written: Callable[[], str]) -> None:
    assert path.read_text() == written(), "run: python scripts/option_docs.py"


def test_default_of_an_option_in_the_readme() -> None:
    texts = {name: option_docs.default_text(option) for name, option in table().items()}
    assert texts["transport"] == "`udp`"
    assert texts["failover"] == "`1`"
    assert texts["spin_us"] == "`auto`"
    assert texts["ib_mtu"] == "`4096` bytes"
    assert texts["lane_bytes"] == "`516096`"
    assert texts["port_range"] == texts["trace"] == ""


def test_every_counter_is_explained() -> None:
    text = (ROOT / "docs" / "observability.md").read_text().partition("## Counters")[2]
    named = re.findall(r"`((?:(?:shared_)?bytes|packets)_\w+)`", text.partition("\n## ")[0])
    assert sorted(set(named)) == sorted(rocecoll.stats())


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
