# SPDX-License-Identifier: Apache-2.0
"""ROCECOLL_REPLACE: programs that never heard of rocecoll run on it."""

from __future__ import annotations

import re
import sys

import pytest
from launch import PROGRAMS, environment, run_programs, torchrun

from rocecoll.torch_hooks import replace_names

pytestmark = pytest.mark.quick

SCRIPT = PROGRAMS / "knows_only_torch.py"
SAID = "rocecoll: carries the process groups of"
OURS = "['rocecoll._c10d']"


def results(output: str) -> list[tuple[str, str, str]]:
    """Loss, the name that get_backend() gave, and the modules of the backends' classes, by rank."""
    return re.findall(r"^loss (\S+) by (\S+) in (.*)$", output, re.MULTILINE)


def test_program_for_gloo_runs_on_rocecoll() -> None:
    plain = torchrun(2, SCRIPT, "gloo")
    replaced = torchrun(2, SCRIPT, "gloo", ROCECOLL_REPLACE="gloo")
    assert SAID not in plain
    assert replaced.count(f"{SAID} 'gloo' (ROCECOLL_REPLACE)\n") == 1  # by rank 0, once
    [(loss, name, module), second] = results(plain)
    assert second == (loss, name, module) and module == "['torch.distributed.distributed_c10d']"
    assert results(replaced) == [(loss, "gloo", OURS)] * 2


def test_several_devices() -> None:
    output = torchrun(2, SCRIPT, "cpu:gloo,cuda:nccl", ROCECOLL_REPLACE="NCCL, gloo")
    assert [found[1:] for found in results(output)] == [("cpu:gloo,cuda:nccl", OURS)] * 2


def test_backend_that_torch_chooses() -> None:
    output = torchrun(2, SCRIPT, ROCECOLL_REPLACE="gloo")
    assert f"{SAID} the default backend" in output
    assert [module for _, _, module in results(output)] == [OURS] * 2


def test_detail_keeps_its_own_gloo() -> None:
    """torch's checking wrapper makes a gloo group beside ours, which must not become ours."""
    output = torchrun(2, SCRIPT, "gloo", ROCECOLL_REPLACE="gloo", TORCH_DISTRIBUTED_DEBUG="DETAIL")
    assert SAID in output and len(results(output)) == 2


def test_bad_value_is_an_error() -> None:
    command = [sys.executable, str(SCRIPT), "gloo"]
    place = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    [result] = run_programs([command], [environment(ROCECOLL_REPLACE="glo", **place)])
    assert result.returncode != 0
    assert "ROCECOLL_REPLACE='glo': accepted is gloo, nccl or both" in result.stdout


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("gloo", "rocecoll"),
        ("nccl", "nccl"),
        ("cpu:gloo,cuda:nccl", "cpu:rocecoll,cuda:nccl"),
        ("cuda:nccl,cpu:gloo", "cuda:nccl,cpu:rocecoll"),
        ("undefined", "rocecoll"),
        ("mpi", "mpi"),
    ],
)
def test_replace_names(asked: str, expected: str) -> None:
    assert replace_names(asked, frozenset({"gloo"})) == expected
    assert replace_names(asked, frozenset()) == asked
