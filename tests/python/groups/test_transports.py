# SPDX-License-Identifier: Apache-2.0
"""ROCECOLL_TRANSPORT where there is no RoCE: what is said, and that auto, the default, works all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from launch import OPTIONS, environment, run_program, run_programs

from rocecoll import Options
from rocecoll.options import resolve, runtime_settings

core = pytest.importorskip("rocecoll._core")
pytestmark = pytest.mark.quick

# A device that no machine has, so that these tests are the same where there are some.
NO_DEVICE = "=rocecoll_no_such"
INSTEAD = "\nOr set ROCECOLL_TRANSPORT=auto, the default, on all ranks: RoCE where there is some, else UDP"
DEVICES = Path("/sys/class/infiniband")
PLUGIN = "librocecoll_verbs.so"
BY_ITSELF_AND_BY_NAME: tuple[dict[str, str], ...] = ({}, {"ROCECOLL_TRANSPORT": "auto"})
PROGRAM = """
import logging, os, sys, torch, torch.distributed as dist
if os.environ.get("LOG_LEVEL"):
    logging.basicConfig(stream=sys.stdout)
    logging.getLogger("rocecoll").setLevel(os.environ["LOG_LEVEL"])
rank, world_size = int(sys.argv[1]), int(sys.argv[2])
store = dist.FileStore(sys.argv[3], world_size)
dist.init_process_group("rocecoll", store=store, rank=rank, world_size=world_size)
tensor = torch.ones(100_000)
dist.all_reduce(tensor)
print("sum", tensor[-1].item())
"""


def run_ranks(
    tmp_path: Path, *variables: dict[str, str], code: str = PROGRAM
) -> list[subprocess.CompletedProcess[str]]:
    """One rank for each set of variables."""
    place = [str(len(variables)), str(tmp_path / "store")]
    return run_programs(
        [[sys.executable, "-c", code, str(rank), *place] for rank in range(len(variables))],
        [environment(ROCECOLL_IB_HCA=NO_DEVICE, **own) for own in variables],
    )


@pytest.mark.parametrize("transport", ["rc", "ud"])
def test_asking_for_roce_says_what_is_missing(transport: str, tmp_path: Path) -> None:
    [result] = run_ranks(tmp_path, {"ROCECOLL_TRANSPORT": transport})
    assert result.returncode == 1, result.stdout
    message = result.stdout[result.stdout.index("RuntimeError: ") :].rstrip("\n")
    assert message.startswith(
        f"RuntimeError: rocecoll: transport {transport} cannot be used here: "
    )
    assert "libibverbs-dev" in message or "device" in message, message
    assert message.endswith(INSTEAD), message


@pytest.mark.parametrize("transport", ["rc", "ud"])
def test_a_build_without_roce_says_so(transport: str) -> None:
    with pytest.raises(core.UnsupportedError) as raised:
        core.Runtime({"transport": transport, "plugin": "/nowhere/plugin.so"})
    assert str(raised.value) == (
        f"rocecoll: transport {transport} cannot be used here: built without RoCE (there is no "
        f"/nowhere/plugin.so); to add it, install libibverbs-dev and then rocecoll again{INSTEAD}"
    )


def test_unknown_transport() -> None:
    with pytest.raises(
        core.InvalidArgumentError, match="transport='tcp': accepted is auto, udp, ud or rc"
    ):
        core.Runtime({"transport": "tcp"})


def test_devices_are_described() -> None:
    missing = core.describe_devices({"plugin": "/nowhere/plugin.so"})
    assert missing.startswith("built without RoCE (there is no /nowhere/plugin.so)")
    assert core.describe_devices()


@pytest.mark.parametrize("named", BY_ITSELF_AND_BY_NAME, ids=["by itself", "by name"])
def test_auto_goes_over_udp_and_says_so_once(named: dict[str, str], tmp_path: Path) -> None:
    auto = named | {"LOG_LEVEL": "INFO"}
    for result in run_ranks(tmp_path, auto, auto):
        assert result.returncode == 0, result.stdout
        assert "sum 2.0\n" in result.stdout
        said = [line for line in result.stdout.splitlines() if "no RoCE in this process" in line]
        assert len(said) == 1, result.stdout
        assert said[0].startswith("INFO:rocecoll:rocecoll: no RoCE in this process, only UDP: ")
        assert "WARNING" not in result.stdout


@pytest.mark.parametrize("named", BY_ITSELF_AND_BY_NAME, ids=["by itself", "by name"])
def test_auto_is_silent_unless_logging_is_configured(named: dict[str, str], tmp_path: Path) -> None:
    [result] = run_ranks(tmp_path, named)
    assert (result.returncode, result.stdout) == (0, "sum 1.0\n")


# Tells which libraries of RoCE it has loaded in the end.
LOADED = """
import re, sys, torch, torch.distributed as dist
try:
    dist.init_process_group("rocecoll", init_method=f"file://{sys.argv[3]}", rank=0, world_size=1)
    dist.barrier()
except RuntimeError:
    pass
print(*sorted(set(re.findall(r"lib(?:rocecoll_verbs|ibverbs)\\.so", open("/proc/self/maps").read()))))
"""


@pytest.mark.skipif(DEVICES.exists() and any(DEVICES.iterdir()), reason="here are RDMA devices")
def test_a_machine_without_devices_loads_no_library_of_roce(tmp_path: Path) -> None:
    [result] = run_ranks(tmp_path, {}, code=LOADED)
    assert (result.returncode, result.stdout) == (0, "\n")
    if Path(core.__file__).with_name(PLUGIN).exists():
        [result] = run_ranks(tmp_path, {"ROCECOLL_TRANSPORT": "rc"}, code=LOADED)
        assert PLUGIN in result.stdout


def test_ranks_that_use_different_transports_are_told(tmp_path: Path) -> None:
    for result in run_ranks(tmp_path, {}, {"ROCECOLL_TRANSPORT": "udp", "ROCECOLL_SHM": "1"}):
        assert result.returncode == 1, result.stdout
        message = result.stdout.splitlines()[-1]
        assert "ROCECOLL_TRANSPORT is 'auto' on rank 0" in message
        assert "'udp' on rank 1" in message
        assert "Set ROCECOLL_TRANSPORT alike on all ranks" in message


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, False),
        ({"ROCECOLL_TRANSPORT": "auto"}, True),
        ({"ROCECOLL_IB_HCA": "mlx5_0"}, True),
        ({"NCCL_IB_HCA": "mlx5_0", "ROCECOLL_IB_TC": "106"}, False),
    ],
)
def test_roce_is_asked_for_by_our_own_names(
    variables: dict[str, str], wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device that refuses to work causes a warning only then."""
    for name in filter(lambda name: name.startswith(OPTIONS), list(os.environ)):
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert runtime_settings(resolve(), "::1", 1)["roce_wanted"] is wanted
    by_argument = resolve(Options(transport="auto").values)
    assert runtime_settings(by_argument, "::1", 1)["roce_wanted"] is True


@pytest.mark.parametrize(
    ("local", "all_ranks", "one_host"), [(4, 4, True), (4, 8, False), (0, 4, False), (0, 0, False)]
)
def test_a_job_on_one_host_is_known_as_such(local: int, all_ranks: int, one_host: bool) -> None:
    """Only then does a rank do without the RoCE that it has."""
    assert runtime_settings(resolve(), "::1", local, all_ranks)["one_host"] is one_host


def test_a_forked_child_ends_without_the_thread_that_logs(tmp_path: Path) -> None:
    code = PROGRAM + (
        "if os.fork() == 0:\n    sys.exit(5)\n"
        "print('child', os.waitstatus_to_exitcode(os.wait()[1]))\n"
    )
    [result] = run_ranks(tmp_path, {}, code=code)
    assert (result.returncode, result.stdout) == (0, "sum 1.0\nchild 5\n")


def test_warnings_show_without_any_set_up() -> None:
    """The last ones are written before the interpreter ends, too."""
    code = """
import queue, rocecoll, sys, types
from rocecoll.logs import log_forwarding
entries = queue.Queue()
rocecoll._core = sys.modules["rocecoll._core"] = types.SimpleNamespace(
    take_log_entry=lambda timeout_s: entries.get(), stop_log_waits=lambda: entries.put(None)
)
log_forwarding.start()
log_forwarding.start()
for severity, text in (("info", "a note"), ("warning", "the port went down")) * 2:
    entries.put((severity, text))
"""
    assert run_program([sys.executable, "-c", code]) == "rocecoll: the port went down\n" * 2
