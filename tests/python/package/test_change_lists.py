# SPDX-License-Identifier: Apache-2.0
"""CONTRIBUTING.md says which files a change touches; an option that is added to a copy of the tree, and
what is there already, show that it is true."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace

import option_docs
import pytest
from style.tree import Tree

from rocecoll import _core, options

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parents[3]
SELECTOR = "csrc/collectives/selector.cc"
TREE = Tree.load(ROOT)
TREE.files |= {f"rocecoll/{stub.name}": stub.read_text() for stub in ROOT.glob("rocecoll/*.pyi")}
CONTRIBUTING = TREE.documents["CONTRIBUTING.md"]


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
    """Except tests, and the changelog, which has lines on every kind of change."""
    word = re.compile(pattern)
    texts = tree.files | tree.documents
    return {
        path
        for path, text in texts.items()
        if not path.startswith("tests/") and path != "CHANGELOG.md" and word.search(text)
    }


def files_that_name(tree: Tree, algorithm: Algorithm) -> set[str]:
    return files_with(tree, rf'\b{algorithm.factory}\b|["`]{algorithm.name}["`]')


def section(heading: str) -> str:
    found = re.search(rf"^### {heading}\n(.*?)(?=^##)", CONTRIBUTING, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found[1]


def named_files(text: str) -> set[str]:
    return {name for name in re.findall(r"`([^`]+)`", text) if (ROOT / name).is_file()}


def listed(heading: str) -> set[str]:
    """The files that always change, says CONTRIBUTING.md: those of the numbered lines."""
    steps = re.findall(r"^\d\. .*(?:\n   .*)*", section(heading), re.MULTILINE)
    return named_files("\n".join(steps))


def listed_if(heading: str, case: str) -> set[str]:
    """The files that also change in a case, says the line behind the numbered ones that begins with it."""
    lines = re.findall(rf"^- If {case}\b.*(?:\n  .*)*", section(heading), re.MULTILINE)
    assert len(lines) == 1, case
    return named_files(lines[0])


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
    assert named - own == listed("Add an algorithm") - {"csrc/collectives/ring.h"}
    assert len(named - own) == 2


@dataclass(frozen=True)
class Edit:
    """`text` goes before the line that begins with `before`."""

    path: str
    before: str
    text: str


HOP_LIMIT = SimpleNamespace(
    name="udp_hop_limit",
    default=0,
    unit="",
    doc="hop limit of UDP packets; 0: that of the system",
    type="int",
    aliases=[],
    process_wide=False,
)
OPTION_TABLE, FIELDS = "csrc/runtime/option_table.cc", "csrc/runtime/runtime.h"
EXAMPLES = "tests/python/package/test_options.py"
WRITTEN = {"README.md", "rocecoll/_c10d.pyi"}  # by scripts/option_docs.py
ADD_HOP_LIMIT = [
    Edit(
        OPTION_TABLE,
        '      Row("ecn", ',
        f'      Row("{HOP_LIMIT.name}", Integer(0, 255), ROCECOLL_FIELD(hop_limit), "",\n'
        f'          "{HOP_LIMIT.doc}"),\n',
    ),
    Edit(FIELDS, "  bool ecn = ", "  uint8_t hop_limit = 0;\n"),
    Edit(EXAMPLES, '    "ecn": (', f'    "{HOP_LIMIT.name}": ("7", 7),\n'),
    Edit(EXAMPLES, '    "ecn": [', f'    "{HOP_LIMIT.name}": ["256", "-1"],\n'),
]


def table_with_hop_limit() -> dict[str, object]:
    """What the core's table is after a build."""
    rows: dict[str, object] = {}
    for name, option in options.table().items():
        if name == "ecn":
            rows[HOP_LIMIT.name] = HOP_LIMIT
        rows[name] = option
    return rows


def copy_with_hop_limit(directory: Path) -> Path:
    """Of the files that the option touches."""
    for path in {edit.path for edit in ADD_HOP_LIMIT} | WRITTEN:
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, directory / path)
    for edit in ADD_HOP_LIMIT:
        text = (directory / edit.path).read_text()
        assert text.count(f"\n{edit.before}") == 1, f"{edit.path} is another one: {edit.before}"
        text = text.replace(f"\n{edit.before}", f"\n{edit.text}{edit.before}")
        (directory / edit.path).write_text(text)
    return directory


def examples_module(path: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location("examples_of_options", path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_an_option_compiles_with_its_row_and_its_field(tmp_path: Path) -> None:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    tree = copy_with_hop_limit(tmp_path)
    command = [compiler, "-std=c++20", "-fsyntax-only", f"-I{tree}/csrc", f"-I{ROOT}/csrc"]
    result = subprocess.run(
        [*command, str(tree / OPTION_TABLE)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def test_an_option_is_in_the_documents_and_has_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nothing but what is listed; the tests miss whatever of it is left out."""
    tree = copy_with_hop_limit(tmp_path)
    monkeypatch.setattr(option_docs, "README", tree / "README.md")
    monkeypatch.setattr(option_docs, "STUB", tree / "rocecoll" / "_c10d.pyi")
    monkeypatch.setattr(option_docs, "table", table_with_hop_limit)
    for path, written, addition in (
        (
            option_docs.README,
            option_docs.readme,
            f"| `ROCECOLL_UDP_HOP_LIMIT` | `0` | {HOP_LIMIT.doc} |",
        ),
        (option_docs.STUB, option_docs.stub, f"        {HOP_LIMIT.name}: int | str = ...,"),
    ):
        before = path.read_text()
        assert before != written()  # which test_documents.py compares
        path.write_text(written())
        added = [line for line in written().split("\n") if line not in before.split("\n")]
        assert added == [addition]
    module = examples_module(tree / EXAMPLES)
    module.table = table_with_hop_limit
    module.test_every_option_has_examples_here()
    without = examples_module(ROOT / EXAMPLES)
    without.table = table_with_hop_limit
    with pytest.raises(AssertionError):
        without.test_every_option_has_examples_here()


def test_an_option_touches_what_is_listed() -> None:
    assert {edit.path for edit in ADD_HOP_LIMIT} | WRITTEN == listed("Add an option")


@pytest.mark.parametrize("heading", re.findall(r"(?m)^### (Add .*)$", CONTRIBUTING))
def test_files_that_are_listed_exist(heading: str) -> None:
    paths = re.findall(r"`([\w./]+/[\w.]+|\w+\.md)`", section(heading))
    assert paths and not [path for path in paths if not (ROOT / path).exists()]


# An existing example of each kind: every file in the core and the package that names it is listed,
# and every listed file names it, except its own files and those that only look like it.
@pytest.mark.parametrize(
    ("heading", "cases", "example", "others"),
    [
        ("Add a dtype", (), r"(?i)\bk?float8_?e4m3fnuz\b", ()),
        ("Add a reduction", (), r"BXOR|kBxor|BxorOp", ()),
        ("Add a fault", (), r"\bcorrupt(ed)?\b", ("csrc/transport/sim/",)),
        (
            "Add a transport",
            ("it has options of its own", "it needs a RoCE device"),
            r"""fast_paths/rc\b|["`(]rc["`)]""",
            ("csrc/transport/fast_paths/rc/",),
        ),
    ],
)
def test_change_touches_what_is_listed(
    heading: str, cases: tuple[str, ...], example: str, others: tuple[str, ...]
) -> None:
    touched = {
        path
        for path in files_with(TREE, example)
        if path.startswith(("csrc/", "rocecoll/")) and not path.startswith(others)
    }
    named = listed(heading).union(*(listed_if(heading, case) for case in cases))
    assert touched == {path for path in named if path.startswith(("csrc/", "rocecoll/"))}
    assert not [name for name in named if not re.search(example, (ROOT / name).read_text())]


def test_what_a_transport_without_shared_memory_touches() -> None:
    """As udp is one: shared memory is off beside it by default."""
    named = listed_if("Add a transport", "shared memory is off")
    assert not [name for name in named if not re.search(r"\budp\b", (ROOT / name).read_text())]


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
