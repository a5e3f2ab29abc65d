# SPDX-License-Identifier: Apache-2.0
"""The package: versions, what is registered, types, and runtime settings."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist
from launch import environment, run_program, run_programs

import rocecoll
from rocecoll import _build_info, runtime

ROOT = Path(__file__).resolve().parents[3]
GROUP = """
import torch, torch.distributed as dist, rocecoll
def once(**options):
    dist.init_process_group("rocecoll", store=dist.HashStore(), rank=0, world_size=1, **options)
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    dist.destroy_process_group()
    return tensor.tolist()
"""


@pytest.mark.quick
def test_version() -> None:
    """Installed, it also says which torch it was built for."""
    assert rocecoll.__version__ == importlib.metadata.version("rocecoll").partition("+")[0]


@pytest.mark.quick
def test_registered_once_for_cpu_and_accelerators() -> None:
    import _rocecoll_autoload

    before = list(dist.Backend.backend_list)
    _rocecoll_autoload.register()
    assert dist.Backend.backend_list == before
    assert before.count("rocecoll") == 1
    assert dist.Backend.backend_capability["rocecoll"] == ["cpu", "cuda", "xpu", "privateuseone"]
    assert dist.Backend.default_device_backend_map["cpu"] == "gloo"
    assert dist.Backend.default_device_backend_map["cuda"] == "nccl"


@pytest.mark.quick
def test_torch_says_that_it_is_available() -> None:
    """Before any group, and without an import of the package: what frameworks may ask first."""
    code = "import torch.distributed as dist; print(*map(dist.is_backend_available, ('rocecoll', "
    code += "'ROCECOLL', 'cpu:rocecoll', 'cpu:gloo,cuda:rocecoll')))"
    assert run_program([sys.executable, "-c", code]) == "True True True True\n"


@pytest.mark.quick
def test_another_patch_of_the_same_torch_is_taken() -> None:
    runtime.check_torch(_build_info.TORCH_VERSION)
    runtime.check_torch(".".join(_build_info.TORCH_VERSION.split(".")[:2]) + ".7")


@pytest.mark.quick
@pytest.mark.parametrize(
    ("version", "instead"),
    [
        (
            "2.15.0",
            "build rocecoll for this one, in its source tree: "
            "`pip install --no-build-isolation --no-deps --force-reinstall .`",
        ),
        ("3.0.0", "another that this version of rocecoll can be built for: 2.13 to 2.15"),
    ],
)
def test_another_torch_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, version: str, instead: str
) -> None:
    monkeypatch.setattr(_build_info, "TORCH_VERSION", "2.14.1+cpu")
    monkeypatch.setattr(_build_info, "TORCH_MINORS", ("2.13", "2.14", "2.15"))
    with pytest.raises(ImportError) as caught:
        runtime.check_torch(version)
    assert str(caught.value) == (
        f"rocecoll was built for torch 2.14.1+cpu but this is torch {version}: install that "
        f"release again, `pip install 'torch==2.14.*'`, or {instead}"
    )


@pytest.mark.quick
def test_a_broken_package_does_not_break_torch() -> None:
    code = (
        "import sys\nsys.modules['rocecoll'] = None\nimport torch.distributed as dist\n"
        "print('rocecoll' in dist.Backend.backend_list)"
    )
    assert run_program([sys.executable, "-c", code], fresh=True) == "True\n"


@pytest.mark.quick
def test_without_autoload_the_import_registers() -> None:
    command = [sys.executable, "-c", GROUP + "print(once())"]
    assert run_program(command, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "[1.0, 1.0, 1.0]\n"


@pytest.mark.quick
def test_stats_before_and_after() -> None:
    code = GROUP + "a = rocecoll.stats()\nonce()\nb = rocecoll.stats()\nprint(a.keys() == b.keys())"
    assert run_program([sys.executable, "-c", code]) == "True\n"


@pytest.mark.quick
def test_options_argument_and_bad_variable() -> None:
    code = GROUP + "print(once(pg_options=rocecoll.Options(port_range='42300-42399')))"
    assert run_program([sys.executable, "-c", code]) == "[1.0, 1.0, 1.0]\n"
    command = [sys.executable, "-c", GROUP + "once()"]
    [result] = run_programs([command], [environment(ROCECOLL_LANE_BYTES="many")])
    assert result.returncode == 1
    assert "ValueError: ROCECOLL_LANE_BYTES='many': accepted is a whole number" in result.stdout


@pytest.mark.quick
def test_settings_change_between_groups() -> None:
    code = (
        GROUP
        + """
import psutil
def port():
    [socket] = psutil.Process().net_connections("udp")
    return socket.laddr.port
once(pg_options=rocecoll.Options(port_range="42400-42449"))
first = port()
once(pg_options=rocecoll.Options(port_range="42450-42499"))
print(42400 <= first < 42450 <= port() < 42500)
"""
    )
    assert run_program([sys.executable, "-c", code]) == "True\n"


@pytest.mark.quick
def test_a_later_group_is_told_which_of_its_options_are_ignored() -> None:
    """Options that it does not set, or sets to the same value, cause no warning."""
    code = (
        GROUP
        + """
import warnings
dist.init_process_group(
    "rocecoll", store=dist.HashStore(), rank=0, world_size=1,
    pg_options=rocecoll.Options(peer_timeout=5, shm=True),
)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    dist.new_group([0])
    same = rocecoll.Options(peer_timeout="5.0", spin_us="auto", algorithm="all_reduce:ring")
    dist.new_group([0], backend="rocecoll", pg_options=same)
    other = rocecoll.Options(lane_bytes=8192, peer_timeout=7, shm="on")
    dist.new_group([0], backend="rocecoll", pg_options=other)
for warning in caught:
    print(warning.message)
"""
    )
    assert run_program([sys.executable, "-c", code], ROCECOLL_LANE_BYTES="65536") == (
        "rocecoll.Options(lane_bytes=8192, peer_timeout=7.0) is ignored: while the process has other "
        "groups it goes on with lane_bytes=65536, peer_timeout=5.0, as its first group was made; give "
        "it to that one, or destroy all groups before\n"
    )


@pytest.mark.quick
def test_a_variable_that_changes_between_groups_is_told_to_be_ignored() -> None:
    """It may be newly set, changed or no longer set. Unchanged variables, and changes without
    effect, cause no warning."""
    code = (
        GROUP
        + """
import os, warnings
dist.init_process_group("rocecoll", store=dist.HashStore(), rank=0, world_size=1)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    dist.new_group([0])
    os.environ |= {"ROCECOLL_EAGER_BYTES": "0", "ROCECOLL_PEER_TIMEOUT": "7"}
    del os.environ["ROCECOLL_LANE_BYTES"]
    dist.new_group([0])
    dist.destroy_process_group()
    dist.init_process_group("rocecoll", store=dist.HashStore(), rank=0, world_size=1)
    dist.new_group([0])
for warning in caught:
    print(warning.message)
"""
    )
    assert run_program([sys.executable, "-c", code], ROCECOLL_LANE_BYTES="65536") == (
        "ROCECOLL_PEER_TIMEOUT=7, unset ROCECOLL_LANE_BYTES is ignored: while the process has other "
        "groups it goes on with peer_timeout=None, lane_bytes=65536, as its first group was made; set "
        "it before that one, or destroy all groups before\n"
    )


@pytest.mark.quick
def test_settings_change_after_fork() -> None:
    """The child has no group in its way, and no warning; the parent's runtime stays as it is."""
    code = (
        GROUP
        + """
import os, sys, warnings
warnings.simplefilter("error")
dist.init_process_group("rocecoll", store=dist.HashStore(), rank=0, world_size=1)
child = os.fork()
if child == 0:
    dist.destroy_process_group()
    sys.exit(once(pg_options=rocecoll.Options(lane_bytes=8192)) != [1.0, 1.0, 1.0])
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
dist.new_group([0], backend="rocecoll")
"""
    )
    assert run_program([sys.executable, "-c", code]) == "0\n"


@pytest.mark.quick
def test_at_the_end_of_the_program() -> None:
    """What runs after rocecoll has shut down finds its counters, and cannot begin again."""
    code = (
        "import atexit\natexit.register(lambda: end())\n"
        + GROUP
        + """
def end():
    print(rocecoll.stats() == before)
    try:
        once()
    except RuntimeError as error:
        print(error)
once()
before = rocecoll.stats()
"""
    )
    assert run_program([sys.executable, "-c", code]).splitlines() == [
        "True",
        "rocecoll: the runtime has been shut down",
    ]


@pytest.mark.quick
def test_settings_change_though_a_work_is_kept() -> None:
    code = (
        GROUP
        + """
def kept(port_range):
    options = rocecoll.Options(port_range=port_range)
    dist.init_process_group(
        "rocecoll", store=dist.HashStore(), rank=0, world_size=1, pg_options=options
    )
    work = dist.all_reduce(torch.ones(3), async_op=True)
    work.wait()
    dist.destroy_process_group()
    return work
print([work.is_completed() for work in [kept("42500-42549"), kept("42550-42599")]])
"""
    )
    assert run_program([sys.executable, "-c", code]) == "[True, True]\n"


@pytest.mark.quick
def test_forked_children_exit_and_say_so() -> None:
    """Data loaders fork after the group was made: they must neither hang nor use its sockets."""
    code = (
        GROUP
        + """
import os, sys
dist.init_process_group("rocecoll", store=dist.HashStore(), rank=0, world_size=1)
child = os.fork()
if child == 0:
    sys.exit(5)  # runs atexit and finalizers
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
tensor = torch.ones(2)
dist.all_reduce(tensor)
dist.destroy_process_group()
"""
    )
    assert run_program([sys.executable, "-c", code]) == "5\n"


@pytest.mark.quick
def test_types() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "rocecoll", "_rocecoll_autoload.py"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
