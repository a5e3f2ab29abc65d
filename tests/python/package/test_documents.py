# SPDX-License-Identifier: Apache-2.0
"""Documents say what the code has, lead to one another, and their programs run."""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Callable
from pathlib import Path

import option_docs
import pytest
import readme_figures
from launch import ROOT, environment, free_port, run_programs, torchrun

import rocecoll
from rocecoll.diagnosis import messages
from rocecoll.options import table, variable

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
    assert texts["transport"] == "`auto`"
    assert texts["failover"] == "`1`"
    assert texts["spin_us"] == "`auto`"
    assert texts["ib_mtu"] == "`4096` bytes"
    assert texts["lane_bytes"] == "`516096`"
    assert texts["port_range"] == texts["trace"] == ""


def test_times_in_the_readme_are_those_of_the_page() -> None:
    expected = readme_figures.readme()
    assert readme_figures.README.read_text() == expected, "run: python scripts/readme_figures.py"


def test_picture_in_the_readme_has_the_figures_of_the_page(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    readme_figures.draw(drawn := tmp_path / "drawn.svg")

    def curves(path: Path) -> list[str]:  # the rest depends on the release of matplotlib
        return re.findall(r'<path d="([^"]*)" clip-path', path.read_text())

    assert len(curves(drawn)) >= 2 * len(readme_figures.PEERS)
    assert curves(readme_figures.PICTURE) == curves(drawn), "run: python scripts/readme_figures.py"


def test_every_counter_is_explained() -> None:
    text = (ROOT / "docs" / "observability.md").read_text().partition("## Counters")[2]
    named = re.findall(r"`((?:(?:shared_)?bytes|packets)_\w+)`", text.partition("\n## ")[0])
    assert sorted(set(named)) == sorted(rocecoll.stats())


DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
)
CODE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)


def text_of(document: str) -> str:
    """Without its blocks of code."""
    return CODE.sub("", (ROOT / document).read_text())


def anchors(document: str) -> set[str]:
    """As hosting sites make them of headings."""
    headings = re.findall(r"^#+ (.+)$", text_of(document), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def links(document: str) -> list[tuple[str, str]]:
    """(file from the root, anchor) of those that stay in the repository."""
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(document)):
        if not re.match(r"\w+:", target):
            path, _, anchor = target.partition("#")
            there = posixpath.join(posixpath.dirname(document), path) if path else document
            found.append((posixpath.normpath(there), anchor))
    return found


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    for path, anchor in links(document):
        assert (ROOT / path).exists(), f"{document} links to {path}"
        assert not anchor or anchor in anchors(path), f"{document} links to {path}#{anchor}"


def test_every_page_is_in_the_index() -> None:
    index = [path for path, _ in links("docs/index.md")]
    assert set(index) >= {path for path in DOCUMENTS if path != "docs/index.md"}
    listed = re.findall(r"^- \[", text_of("docs/index.md"), re.MULTILINE)
    assert len(listed) == len(set(index)), "a page is listed twice"


def test_options_that_documents_name_exist() -> None:
    examples = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("examples/*/*")]
    known = {variable(name) for name in table()}
    # A macro and a mistake that a page shows; variables of setup.py.
    known |= {"ROCECOLL_CHECK", "ROCECOLL_SOKET_IFNAME"}
    known |= {"ROCECOLL_BUILD_ANY_TORCH", "ROCECOLL_HOME_URL"}
    for document in DOCUMENTS + examples:
        named = set(re.findall(r"ROCECOLL_\w*[A-Z]", (ROOT / document).read_text()))
        assert named <= known, f"{document} names {named - known}"


def test_shown_sources_are_compiled() -> None:
    """The C++ on a page stands in a file that the page names."""
    text = (ROOT / "docs" / "write_a_transport.md").read_text()
    files = re.findall(r"`((?:csrc|tests)/\S+\.(?:h|cc))`", text)
    sources = "".join((ROOT / file).read_text() for file in files)
    blocks = re.findall(r"```cpp\n(.*?)```", text, re.DOTALL)
    assert blocks
    for block in blocks:
        assert block in sources, block


@pytest.mark.parametrize(
    ("document", "printed"),
    [
        ("README.md", "rank 1 of 2: [1.0, 1.0, 1.0, 1.0]"),
        ("docs/quick_start.md", "the same weights on all ranks"),
        ("docs/migration.md", "rank 1 has moved from gloo to rocecoll"),
    ],
)
def test_program_runs(tmp_path: Path, document: str, printed: str) -> None:
    """The Python blocks of a document, one after the other, are a program."""
    program = tmp_path / "program.py"
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    program.write_text("\n".join(blocks))
    assert printed in torchrun(2, program)


def test_the_quick_start_loses_a_rank_and_leaves_the_shell_as_it_was(tmp_path: Path) -> None:
    """What it exports would have `rocecoll bench`, which comes next, look for other ranks."""
    text = (ROOT / "docs" / "quick_start.md").read_text()
    program = "".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    section = text.partition("## When a rank dies")[2]
    death, by_hand, _ = re.findall(r"^```\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    in_the_loop = "    optimizer.step()\n"
    assert in_the_loop in program
    program = program.replace(in_the_loop, in_the_loop + death)
    (tmp_path / "train.py").write_text(f"import os\n{program}")
    shell = by_hand.replace("29500", str(free_port()))
    python = str(Path(sys.executable).parent)
    script = f'cd {tmp_path}\nPATH={python}:$PATH\n{shell}\necho "then $? ${{WORLD_SIZE-unset}}"'
    [result] = run_programs([["bash", "-c", script]], [environment()])
    assert "lost rank 1" in result.stdout, result.stdout
    assert "then 1 unset" in result.stdout, result.stdout


def source_text() -> str:
    """Of the library and its build, with literals that the languages join joined."""
    files = [*ROOT.glob("csrc/**/*.cc"), *ROOT.glob("csrc/**/*.h"), *ROOT.glob("rocecoll/**/*.py")]
    text = "".join(
        file.read_text() for file in [*files, ROOT / "setup.py", ROOT / "_rocecoll_autoload.py"]
    )
    return re.sub(r'"\s*\n\s*f?"', "", text)


def test_messages_that_are_explained_are_said() -> None:
    rows = [row for row in messages.entries() if row.page == "messages.md"]
    assert len(rows) > 40
    said = source_text()
    for phrase in (phrase for row in rows for phrase in row.says):
        for part in phrase.split("..."):
            assert part.strip(" ,;:") in said, f"nobody says {part!r} of {phrase!r}"
