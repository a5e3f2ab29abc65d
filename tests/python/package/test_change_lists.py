# SPDX-License-Identifier: Apache-2.0
"""CONTRIBUTING.md says which files a change touches; what is there already shows that it is true."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from style.tree import Tree

from rocecoll import _core

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parents[3]
SELECTOR = "csrc/collectives/selector.cc"
TREE = Tree.load(ROOT)


@dataclass(frozen=True)
class Algorithm:
    collective: str
    name: str
    factory: str


def algorithms(tree: Tree) -> list[Algorithm]:
    """The rows of the selector's table."""
    rows = re.findall(r'\{k([A-Z]\w*), "(\w+)", (\w+)[,}]', tree.files[SELECTOR])
    return [
        Algorithm(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", collective).lower(), name, factory)
        for collective, name, factory in rows
    ]


def files_with(tree: Tree, pattern: str) -> set[str]:
    """But for tests, and the changelog, which has lines on every kind of change."""
    word = re.compile(pattern)
    texts = tree.files | tree.documents
    return {
        path
        for path, text in texts.items()
        if not path.startswith("tests/") and path != "CHANGELOG.md" and word.search(text)
    }


def files_that_name(tree: Tree, algorithm: Algorithm) -> set[str]:
    return files_with(tree, rf'\b{algorithm.factory}\b|["`]{algorithm.name}["`]')


def listed(change: str) -> set[str]:
    """The files that the table of CONTRIBUTING.md names for a change."""
    row = re.search(rf"^\| {change} \|(.*)\|$", TREE.documents["CONTRIBUTING.md"], re.MULTILINE)
    assert row is not None
    return {name for name in re.findall(r"`([^`]+)`", row[1]) if (ROOT / name).is_file()}


def test_rows_are_what_is_offered() -> None:
    rows = algorithms(TREE)
    for collective in {row.collective for row in rows}:
        names = [row.name for row in rows if row.collective == collective]
        assert names == _core.algorithm_names(collective)


@pytest.mark.parametrize("algorithm", algorithms(TREE), ids=lambda row: row.factory)
def test_algorithm_touches_two_files_beside_its_own(algorithm: Algorithm) -> None:
    named = files_that_name(TREE, algorithm)
    own = {path for path in named if re.fullmatch(r"csrc/collectives/\w+\.h", path)}
    assert len(own) == 1
    assert named - own == listed("add an algorithm")
    assert len(named - own) == 2


# An example of each; in how many files beside its own, but for tests and guides.
@pytest.mark.parametrize(
    ("change", "example", "own", "count"),
    [
        ("add a dtype", r"\bkBfloat16\b", "nowhere", 3),
        ("add a transport", r'transport/fast_paths/rc\b|"rc"', "csrc/transport/fast_paths/rc/", 4),
        ("add an option", r'"(ib_sl|ROCECOLL_IB_SL)"', "nowhere", 1),
    ],
)
def test_change_touches_what_is_listed(change: str, example: str, own: str, count: int) -> None:
    core = {path for path in files_with(TREE, example) if path.startswith(("csrc/", "rocecoll/"))}
    touched = {path for path in core if not path.startswith(own)}
    assert touched == {
        name for name in listed(change) if not name.startswith(("tests/", "scripts/"))
    }
    assert len(touched) == count


def test_another_file_is_found() -> None:
    planted = Tree(
        {
            SELECTOR: '{kReduceScatter, "star", StarReduceScatter},\n',
            "csrc/collectives/star.h": "inline Program StarReduceScatter() {}\n",
            "csrc/collectives/other.h": "// As good as StarReduceScatterGather, or a star.\n",
            "csrc/engine/operations/plan.cc": 'if (name == "star") return 1;\n',
            "rocecoll/options.py": "StarReduceScatter = 1\n",
            "docs/algorithms.md": "| `star` |\n",
            "tests/python/test_star.py": 'run("star")\n',
        }
    )
    star = Algorithm("reduce_scatter", "star", "StarReduceScatter")
    assert algorithms(planted) == [star]
    assert files_that_name(planted, star) == {
        SELECTOR,
        "csrc/collectives/star.h",
        "csrc/engine/operations/plan.cc",
        "rocecoll/options.py",
        "docs/algorithms.md",
    }
