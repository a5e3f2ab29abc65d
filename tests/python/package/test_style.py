# SPDX-License-Identifier: Apache-2.0
"""The rules of docs/style.md that a program can check, each shown able to fail."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from style import cpp_rules, python_rules, size_rules
from style.tree import Tree

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parents[3]
MOST_FILE_BYTES = 256 * 1024
TAG = "// SPDX-License-Identifier: Apache-2.0\n"


@dataclass
class Rule:
    """`places` are the beginnings of exactly those violations that `planted` has."""

    check: Callable[[Tree], list[str]]
    planted: dict[str, str]
    places: list[str]

    @property
    def name(self) -> str:
        return self.check.__name__


def members(count: int) -> str:
    return "".join(f"  int member{i}_ = {i};\n" for i in range(count))


def body(lines: int) -> str:
    return "\n".join(f"  x += {number};" for number in range(lines))


LAYERS = {
    "csrc/base/a.h": "",
    "csrc/transport/transport.h": '#include "base/a.h"\n',
    "csrc/messenger/messenger.h": '#include "transport/transport.h"\n',
    "csrc/transport/port.h": '#include "transport/transport.h"\n',
    "csrc/transport/datagram/reliability/path.h": '#include "transport/port.h"\n',
}
RULES = [
    Rule(
        cpp_rules.layering,
        LAYERS
        | {
            "csrc/base/b.h": '#include <vector>\n#include "collectives/c.h"\n',
            "csrc/collectives/c.h": '#include "base/a.h"\n#include "base/missing.h"\n',
            "csrc/engine/e.h": '#include "engine/groups/g.h"\n#include "transport/sim/s.h"\n',
            "csrc/engine/groups/g.h": '#include "messenger/messenger.h"\n#include "engine/e.h"\n',
            "csrc/transport/datagram/d.h": '#include "transport/datagram/reliability/path.h"\n'
            '#include "messenger/messenger.h"\n',
            "csrc/transport/sim/s.h": '#include "transport/port.h"\n'
            '#include "transport/datagram/d.h"\n',
            "csrc/torch/t.h": '#include "python/p.h"\n#include "engine/e.h"\n',
            "csrc/python/p.h": "",
            "csrc/nowhere/n.h": "",
        },
        [
            "csrc/base/b.h:2: base includes collectives/c.h",
            'csrc/collectives/c.h:2: "base/missing.h" names no file',
            "csrc/engine/e.h:2: engine includes transport/sim/s.h",
            "csrc/engine/groups/g.h:2: groups includes engine/e.h",
            "csrc/nowhere/n.h:1: is in no layer",
            "csrc/torch/t.h:1: torch includes python/p.h",
            "csrc/transport/datagram/d.h:2: datagram includes messenger/messenger.h",
            "csrc/transport/sim/s.h:2: sim includes transport/datagram/d.h",
        ],
    ),
    Rule(
        cpp_rules.torch_is_confined,
        {
            "csrc/engine/a.cc": "#include <c10/util/Half.h>\n#include <pybind11/pybind11.h>\n",
            "csrc/torch/work.h": '#include <torch/csrc/x.h>\n#include "torch/own.h"\n',
            "csrc/torch/own.h": "#include <torch/extension.h>\n",
            "csrc/python/core.cc": '#include <pybind11/pybind11.h>\n#include "torch/work.h"\n',
        },
        ["csrc/engine/a.cc:1", "csrc/engine/a.cc:2", "csrc/torch/own.h:1"],
    ),
    Rule(
        cpp_rules.no_environment,
        {"csrc/torch/a.cc": '// getenv\nauto s = "getenv";\nauto v = std::getenv("A");\n'},
        ["csrc/torch/a.cc:3: getenv"],
    ),
    Rule(
        cpp_rules.clocks_have_owners,
        {
            "csrc/engine/engine.cc": "x();\nauto t = std::chrono::steady_clock::now();\n",
            "csrc/engine/progress/progress.cc": "auto t = std::chrono::steady_clock::now();\n",
            "csrc/engine/progress/engine_lock.h": "Instant MonotonicNow();\n",
            "csrc/runtime/runtime.cc": "port(MonotonicNow);\nport(MonotonicNow());\n",
            "csrc/torch/work/work.cc": "auto t = steady_clock::now();\n",
            "csrc/torch/work/work_queue.cc": "auto t = steady_clock::now();\n",
            "csrc/transport/datagram/udp/udp_port.cc": "return MonotonicNow();\n",
            "csrc/transport/datagram/fault_port.cc": "clock_gettime(CLOCK_MONOTONIC, &t);\n",
        },
        [
            "csrc/engine/engine.cc:2",
            "csrc/runtime/runtime.cc:2",
            "csrc/torch/work/work_queue.cc:1",
            "csrc/transport/datagram/fault_port.cc:1",
        ],
    ),
    Rule(
        cpp_rules.banned_calls,
        {
            "csrc/engine/a.cc": "void Engine::abort(GroupId id) {\n  engine.abort();\n  abort();\n}\n"
            "static_assert(true);\n  assert(x);\n  snprintf(b, 1, p);\n  printf(p);\n  std::exit(1);\n"
            "std::this_thread::sleep_for(t);\nstd::cerr << 1;\nstd::abort();\n",
            "csrc/python/b.cc": "  printf(p);\n",
        },
        [f"csrc/engine/a.cc:{line}: " for line in (3, 6, 8, 9, 10, 11, 12)],
    ),
    Rule(
        cpp_rules.throw_is_confined,
        {
            "csrc/base/check.h": "  throw 1;\n",
            "csrc/engine/a.cc": "// throw\n  throw std::bad_alloc();\n",
            "csrc/torch/b.cc": "  throw 1;\n",
        },
        ["csrc/engine/a.cc:2"],
    ),
    Rule(
        cpp_rules.declarations_are_used,
        {
            "csrc/base/a.h": "#define CHECK rocecoll::Fail()\nvoid Fail();\n"
            "constexpr int kUsed = 1;\ninline constexpr int kDead = 2;\n"
            "class A : public B {\n  void live() const;\n  int* dead(int a = {},\n"
            "            int b = 2);\n  void forgotten() { live(); }\n"
            "  void inherited() override;\n  bool operator==(const A&) const;\n};\n",
            "csrc/base/a.cc": "void A::live() const {}\nint* A::dead(int a, int b) { return b; }\n"
            "void A::inherited() {}\nint x = kUsed;\nint y = Whole();\n",
            "csrc/base/b.h": "inline int Part() { return 1; }\n"
            "inline int Whole() {\n  return Part();\n}\n",
        },
        [
            "csrc/base/a.h:4: nothing uses kDead",
            "csrc/base/a.h:8: nothing uses dead",
            "csrc/base/a.h:9: nothing uses forgotten",
        ],
    ),
    Rule(
        cpp_rules.headers_are_used,
        {
            "csrc/base/dead.h": "",
            "csrc/base/dead.cc": '#include "base/dead.h"\n',
            "csrc/base/live.h": "",
            "csrc/engine/a.cc": '#include "base/live.h"\n',
        },
        ["csrc/base/dead.h:1"],
    ),
    Rule(
        cpp_rules.sources_have_headers,
        {
            "csrc/base/a.cc": '#include "base/a.h"\n',
            "csrc/base/a_part.cc": '#include "base/a.h"\n',
            "csrc/base/lost.cc": '#include "base/a.h"\n',
            "csrc/python/core_module.cc": '#include "base/a.h"\n',
        },
        ["csrc/base/lost.cc:1"],
    ),
    Rule(
        cpp_rules.tests_belong_to_a_layer,
        {
            "csrc/base/a.h": "",
            "csrc/engine/e.h": "",
            "tests/cpp/base/a_test.cc": '#include "base/a.h"\n',
            "tests/cpp/base/helped_test.cc": '#include "base/helper.h"\n',
            "tests/cpp/base/helper.h": '#include "base/a.h"\n',
            "tests/cpp/base/unused.h": '#include "base/a.h"\n',
            "tests/cpp/base/astray_test.cc": '#include "engine/e.h"\n',
            "tests/cpp/base/main.cc": '#include "base/a.h"\n',
            "tests/cpp/conformance/c_test.cc": '#include "base/a.h"\n',
            "tests/cpp/attic/b_test.cc": '#include "base/a.h"\n',
        },
        [
            "tests/cpp/attic/b_test.cc:1: attic is no layer",
            "tests/cpp/base/astray_test.cc:1: includes no header of base",
            "tests/cpp/base/main.cc:1: name it",
            "tests/cpp/conformance/c_test.cc:1: includes no header of transport",
            "tests/cpp/base/unused.h:1: no test includes it",
        ],
    ),
    Rule(
        cpp_rules.comments_name_files,
        {
            "csrc/base/a.h": "int a;  // as b.h has it, base/b.h too, and <c.h>\n",
            "csrc/base/b.h": "// errno.h, and b.cc of old\n// old/b.h\n",
        },
        ["csrc/base/b.h:1: there is no b.cc", "csrc/base/b.h:2: there is no old/b.h"],
    ),
    Rule(
        size_rules.license_lines,
        {
            "csrc/a.h": TAG,
            "csrc/b.cc": "#pragma once\n" + TAG,
            "csrc/CMakeLists.txt": "",
            "scripts/run": "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n",
            "rocecoll/c.py": '"""No tag."""\n',
            "pyproject.toml": "[project]\n",
        },
        ["csrc/CMakeLists.txt:1", "csrc/b.cc:1", "rocecoll/c.py:1"],
    ),
    Rule(
        size_rules.file_lengths,
        {"csrc/long.cc": "\n" * 451, "csrc/fits.cc": "\n" * 450},
        ["csrc/long.cc:451: has 451 lines"],
    ),
    Rule(
        size_rules.function_lengths,
        {
            "csrc/base/a.cc": f"namespace a {{\nint x;\nint Long(int a,\n         int b) {{\n{body(78)}\n}}\n"
            f"void Fits() {{\n{body(78)}\n}}\nconst int table[] = {{\n{body(90)}\n}};\n}}\n",
            "csrc/base/b.h": f"class B {{\n  void f() const {{\n    if (a) {{\n{body(80)}\n    }}\n  }}\n"
            f"  int g;\n{body(100)}\n}};\n",
            "tests/cpp/base/a_test.cc": f"TEST(A, B) {{\n  auto run = [&](int a) {{\n{body(80)}\n  }};\n}}\n",
            "rocecoll/a.py": f"def f():\n    x = 1\n{body(80).replace('  x', '    x').replace(';', '')}\n",
        },
        [
            "csrc/base/a.cc:3: a function of 81 lines",
            "csrc/base/b.h:2: ",
            "rocecoll/a.py:1: ",
            "tests/cpp/base/a_test.cc:1: ",
            "tests/cpp/base/a_test.cc:2: ",
        ],
    ),
    Rule(
        size_rules.class_sizes,
        {
            "csrc/base/a.h": f"class A : public B {{\n  int f(int a_ = 1) const {{ return x_; }}\n{members(29)}"
            "  struct Part {\n    int inner_;\n  };\n  int last_[3];\n  int more() const;\n};\n",
            "csrc/base/b.h": f"template <typename T>\nclass Large {{\n{members(29)}"
            "  explicit Large(int a) : member0_(a), member1_{a} {}\n  T table_ = {1, 2};\n"
            "  T braces_{3};\n  // T no_;\n};\n",
            "csrc/base/c.cc": f"class C {{\n{members(40)}}};\n",
        },
        ["csrc/base/b.h:2: Large has 31 members"],
    ),
    Rule(
        python_rules.environment_has_its_readers,
        {
            "rocecoll/options.py": "import os\nos.environ\n",
            "rocecoll/environment.py": "import os\nos.environ\n",
            "rocecoll/a.py": "import os\nos.environ['A']\nos.getenv('B')\n",
            "rocecoll/b.py": "from os import environ\n",
            "scripts/c.py": "import os\nos.environ\n",
        },
        ["rocecoll/a.py:2", "rocecoll/a.py:3", "rocecoll/b.py:1"],
    ),
    Rule(
        python_rules.command_line_is_on_top,
        {
            "rocecoll/__main__.py": "from rocecoll.cli.app import main\n",
            "rocecoll/cli/app.py": "import typer\nfrom rocecoll.diagnosis import a\n",
            "rocecoll/bench/__main__.py": "from rocecoll.cli.app import app\n",
            "rocecoll/bench/a.py": "import torch\nfrom rich.table import Table\n",
            "rocecoll/bench/b.py": "import typer\n",
            "rocecoll/diagnosis/a.py": "import psutil\nfrom rocecoll import options\n",
            "rocecoll/diagnosis/b.py": "def f():\n    import torch.distributed\n",
            "rocecoll/diagnosis/c.py": "from rich.console import Console\n",
            "rocecoll/backend.py": "import torch\nfrom rocecoll.diagnosis import a\n",
            "rocecoll/runtime.py": "import rocecoll.bench\n",
        },
        [
            "rocecoll/backend.py:1: imports rocecoll.diagnosis",
            "rocecoll/bench/b.py:1: imports typer",
            "rocecoll/diagnosis/b.py:1: imports torch",
            "rocecoll/diagnosis/c.py:1: imports rich",
            "rocecoll/runtime.py:1: imports rocecoll.bench",
        ],
    ),
    Rule(
        python_rules.rooms_import_what_is_below,
        {
            "rocecoll/__init__.py": "from rocecoll import options\n",
            "rocecoll/options.py": "from rocecoll.host import processors\n",
            "rocecoll/backend.py": "from rocecoll.rendezvous.meeting import meet\n",
            "rocecoll/host/processors.py": "import psutil\nfrom rocecoll import _core, options\n",
            "rocecoll/rendezvous/__init__.py": "class RendezvousError(RuntimeError): ...\n",
            "rocecoll/rendezvous/meeting.py": "def f():\n    from rocecoll import backend\n",
            "rocecoll/rendezvous/records.py": "from rocecoll.rendezvous import RendezvousError\n",
            "rocecoll/logs/a.py": "from rocecoll.rendezvous import RendezvousError\n",
            "rocecoll/diagnosis/__init__.py": "",
            "rocecoll/diagnosis/finding.py": "",
            "rocecoll/diagnosis/pairs/udp.py": "from rocecoll.diagnosis.machine import rdma\n",
            "rocecoll/diagnosis/machine/rdma.py": "from rocecoll.diagnosis.pairs import udp\n",
            "rocecoll/diagnosis/traces/a.py": "from rocecoll.diagnosis import finding\n",
            "rocecoll/cli/app.py": "from rocecoll.diagnosis.pairs import udp\n",
            "rocecoll/wing/a.py": "",
        },
        [
            "rocecoll/diagnosis/machine/rdma.py:1: imports rocecoll.diagnosis.pairs.udp;",
            "rocecoll/diagnosis/traces/a.py:1: imports rocecoll.diagnosis.finding;",
            "rocecoll/host/processors.py:1: imports rocecoll.options;",
            "rocecoll/logs/a.py:1: imports rocecoll.rendezvous;",
            "rocecoll/rendezvous/meeting.py:1: imports rocecoll.backend;",
            "rocecoll/wing/a.py:1: is in no room",
        ],
    ),
    Rule(
        python_rules.rooms_are_packages,
        {
            "rocecoll/__init__.py": "",
            "rocecoll/host/__init__.py": "",
            "rocecoll/host/a.py": "",
            "rocecoll/logs/a.py": "",
        },
        ["rocecoll/logs:1"],
    ),
    Rule(
        python_rules.modules_are_used,
        {
            "pyproject.toml": '[project.scripts]\nrocecoll = "rocecoll.cli:main"\n',
            "rocecoll/__init__.py": "from . import a\nfrom .b import name\n",
            "rocecoll/a.py": "import rocecoll.c\n",
            "rocecoll/b.py": "",
            "rocecoll/c.py": "",
            "rocecoll/cli.py": 'LATER = "rocecoll.later"\n',
            "rocecoll/dead.py": 'import rocecoll.dead\nNAME = "rocecoll.dead"\n',
            "rocecoll/later.py": "",
        },
        ["rocecoll/dead.py:1"],
    ),
    Rule(
        python_rules.helpers_are_used,
        {
            "README.md": "`./scripts/test`, and [an example](examples/train.py)\n",
            "examples/train.py": "",
            "examples/forgotten.py": '"""Run examples/forgotten.py."""\n',
            "scripts/test": "#!/bin/sh\nexec scripts/test.py\n",
            "scripts/test.py": "from report import Tally\n",
            "scripts/report.py": "",
            "scripts/old": "#!/bin/sh\n",
            "tests/python/conftest.py": "import harness\n",
            "tests/python/harness.py": "import harness\n",
            "tests/python/idle.py": "import idle\n",
            "tests/python/programs/classic.py": "",
            "tests/python/programs/unplug.py": "# old and idle\n",
            "tests/python/style/__init__.py": "",
            "tests/python/style/tree.py": "",
            "tests/python/test_a.py": 'from style.tree import Tree\nrun("classic.py")\n',
        },
        [
            "examples/forgotten.py:1",
            "scripts/old:1",
            "tests/python/idle.py:1",
            "tests/python/programs/unplug.py:1",
        ],
    ),
]


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree.load(ROOT)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_tree_keeps_rule(tree: Tree, rule: Rule) -> None:
    found = rule.check(tree)
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule_finds_what_is_planted(rule: Rule) -> None:
    found = rule.check(Tree(rule.planted))
    pairs = list(zip(sorted(found), sorted(rule.places), strict=False))
    assert len(found) == len(rule.places), found
    assert all(message.startswith(place) for message, place in pairs), found


def test_every_rule_is_checked() -> None:
    public = {
        name
        for module in (cpp_rules, python_rules, size_rules)
        for name, value in vars(module).items()
        if getattr(value, "__annotations__", {}) == {"tree": "Tree", "return": "list[str]"}
    }
    assert public == {rule.name for rule in RULES}


def test_tree_has_the_sources(tree: Tree) -> None:
    for path in ("csrc/base/status.h", "csrc/CMakeLists.txt", "tests/python/package/test_style.py"):
        assert path in tree.files


def test_repository_holds_no_large_file() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("only git knows which files are the repository's")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True)
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    assert paths
    sizes = {str(path): path.stat().st_size for path in paths if path.is_file()}
    assert {path: size for path, size in sizes.items() if size > MOST_FILE_BYTES} == {}
