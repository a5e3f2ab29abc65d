# SPDX-License-Identifier: Apache-2.0
"""Importing rocecoll and using it says nothing, needs nothing first, and spoils nothing."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from launch import PROGRAMS, ROOT, environment, free_port, run_program, run_programs

pytestmark = pytest.mark.quick

ALONE = """
import torch, torch.distributed as dist
dist.init_process_group("rocecoll", store=dist.HashStore(), rank=0, world_size=1)
tensor = torch.ones(3)
dist.all_reduce(tensor)
dist.destroy_process_group()
print(tensor.tolist())
"""

# An editable installation finds what is built for any package of its name.
NOT_EDITABLE = """
import sys
sys.meta_path[:] = [one for one in sys.meta_path if "__editable__" not in one.__module__]
"""


def run_python(code: str, **extra: str) -> str:
    """Where nothing has been imported."""
    return run_program([sys.executable, "-c", code], fresh=True, **extra)


def test_without_torch_first() -> None:
    assert run_python("import rocecoll" + ALONE) == "[1.0, 1.0, 1.0]\n"


def test_after_torch() -> None:
    assert run_python("import torch.distributed\nimport rocecoll" + ALONE) == "[1.0, 1.0, 1.0]\n"


def test_without_import_of_rocecoll() -> None:
    """The installed package registers the backend by an entry point."""
    assert run_python(ALONE) == "[1.0, 1.0, 1.0]\n"


def test_import_leaves_torch_alone() -> None:
    code = "import sys, rocecoll\nrocecoll.stats()\nprint('torch' in sys.modules)"
    assert run_python(code) == "False\n"


def test_import_loads_nothing_for_the_counters_of_nics() -> None:
    code = "import sys, rocecoll\nprint('rocecoll.host.port_counters' in sys.modules, rocecoll.nic_counters)"
    assert run_python(code).startswith("False <function nic_counters")


def test_torch_later_without_autoload() -> None:
    """Nothing but the import of rocecoll registers; somebody has only looked whether torch is there."""
    code = "import rocecoll, importlib.util\nimportlib.util.find_spec('torch')" + ALONE
    code += "import sys\nprint(type(torch.__loader__).__name__, 'Torch' in str(sys.meta_path))"
    output = run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert output == "[1.0, 1.0, 1.0]\nSourceFileLoader False\n"


@pytest.mark.parametrize(
    "use",
    [
        "rocecoll.Options()",
        "rocecoll.dump_flight_recorder(sys.argv[1])",
        "rocecoll.trace().__enter__()",
    ],
)
def test_what_needs_torch_imports_it(use: str, tmp_path: Path) -> None:
    code = f"import rocecoll, sys\n{use}\nprint('torch' in sys.modules)"
    command = [sys.executable, "-c", code, str(tmp_path / "dump")]
    assert run_program(command, fresh=True) == "True\n"


def test_a_source_tree_that_hides_an_installation_says_so(tmp_path: Path) -> None:
    """As where a program lies in the tree that rocecoll was installed from."""
    for name in ("setup.py", "_rocecoll_autoload.py"):
        shutil.copy(ROOT / name, tmp_path)
    built = shutil.ignore_patterns("*.so", "_build_info.py", "__pycache__")
    shutil.copytree(ROOT / "rocecoll", tmp_path / "rocecoll", ignore=built)
    told = (
        f"Python has found its source tree, {tmp_path}, first: if it is installed, keep and start"
    )
    command_line = "from rocecoll.cli.app import main\nmain()"
    for program, begin in ((ALONE, "rocecoll is not built: "), (command_line, "was not built: ")):
        (tmp_path / "program.py").write_text(NOT_EDITABLE + program)
        command = [sys.executable, str(tmp_path / "program.py"), "doctor"]
        [result] = run_programs([command], [environment()], fresh=True)
        assert result.returncode == 1
        assert begin + told in result.stdout, result.stdout


def test_another_torch_is_named_when_a_group_is_made() -> None:
    """Until then it works as if rocecoll were not there, but for a warning."""
    code = """
import rocecoll._build_info
rocecoll._build_info.TORCH_VERSION = "1.0.0"
import torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
dist.barrier()
try:
    dist.new_group([0], backend="rocecoll")
except ImportError as error:
    print(error)
"""
    output = run_python(code)
    assert "rocecoll is installed but cannot be used: rocecoll was built for torch 1.0.0" in output
    assert output.splitlines()[-1].startswith(
        "rocecoll was built for torch 1.0.0 but this is torch"
    )


# One rank has a package that refuses its torch, or that has no library; RANK 0 is as it should be.
REFUSES = """
import sys, types
broken = types.ModuleType("rocecoll._build_info")
broken.TORCH_VERSION, broken.TORCH_MINORS = "1.0.0", ("1.0",)
sys.modules["rocecoll._build_info"] = broken
"""
HAS_NO_LIBRARY = """
import sys
sys.modules["rocecoll._c10d"] = None
"""
MEETS = """
import os, torch.distributed as dist
try:
    dist.init_process_group("rocecoll")
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [(REFUSES, "rocecoll was built for torch 1.0.0"), (HAS_NO_LIBRARY, "import of rocecoll._c10d")],
    ids=["refuses", "has no library"],
)
def test_a_rank_that_cannot_import_the_package_tells_the_others(trouble: str, reason: str) -> None:
    """They would wait for it for half an hour."""
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    programs = [MEETS, trouble + MEETS]
    one, other = run_programs(
        [[sys.executable, "-c", program] for program in programs],
        [environment(RANK=str(rank), **common) for rank in range(2)],
    )
    last = one.stdout.splitlines()[-1]
    assert last.startswith("RendezvousError rocecoll: group '0': rank 1 ("), one.stdout
    assert f") could not start: {reason}" in last
    assert reason in other.stdout.splitlines()[-1], other.stdout


def test_no_warnings() -> None:
    # torch itself warns where it is imported; from then on every warning is an error.
    code = "import torch, warnings\nwarnings.simplefilter('error')\nimport rocecoll" + ALONE
    assert run_python(code) == "[1.0, 1.0, 1.0]\n"


def test_empty_library_path() -> None:
    assert run_python("import rocecoll" + ALONE, LD_LIBRARY_PATH="") == "[1.0, 1.0, 1.0]\n"


def test_core_without_torch() -> None:
    code = "import sys\nsys.modules['torch'] = None\nimport rocecoll._core\nprint('ok')"
    assert run_python(code) == "ok\n"


def test_exit_without_destroy() -> None:
    """A program that just ends does not hang or crash in the progress thread."""
    assert "[1.0, 1.0, 1.0]" in run_python(ALONE.replace("dist.destroy_process_group()", ""))


def test_exception_ends_the_process() -> None:
    code = ALONE.replace("print(tensor.tolist())", "raise SystemExit(7)")
    command = [sys.executable, "-c", "import rocecoll" + code]
    [result] = run_programs([command], [environment()], fresh=True)
    assert result.returncode == 7, result.stdout


def test_gloo_beside_it() -> None:
    """Another backend in the same process keeps working."""
    code = """
import rocecoll, torch, torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
group = dist.new_group([0], backend="rocecoll")
tensor = torch.ones(2)
dist.all_reduce(tensor)
dist.all_reduce(tensor, group=group)
dist.destroy_process_group()
print(tensor.tolist())
"""
    assert run_program([sys.executable, "-c", code]) == "[1.0, 1.0]\n"


def test_program_prints_only_its_own(tmp_path) -> None:
    command = [sys.executable, str(PROGRAMS / "classic.py"), "broadcast"]
    command += ["--init-method", f"file://{tmp_path}/store"]
    output = run_program(command, RANK="0", WORLD_SIZE="1")
    assert output == "broadcast ok on 0 of 1\n"
