# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu_check where there is no GPU: a small run, and what becomes of parts that go wrong."""

from __future__ import annotations

import json
import os
import sys
import time
from multiprocessing.connection import wait
from pathlib import Path

import fake_device
import pytest
import torch
from gpu_parts import report
from gpu_parts.parts import PARTS, Part
from gpu_parts.runner import FAILED, NOT_RUN, PASSED, Choice, Result, Runner, Running
from launch import ROOT, environment, run_programs

pytestmark = pytest.mark.quick

CHECK = [sys.executable, str(ROOT / "scripts" / "gpu_check.py")]
JOINED = "import torch.distributed as dist\ndef run(rank):\n    rank.join()\n"
HANGS = (
    "import threading\ndef run(rank):\n    rank.fail('found early')\n    threading.Event().wait()\n"
)


def check(*arguments: str) -> tuple[int, str]:
    [done] = run_programs([[*CHECK, *arguments]], [environment()], fresh=True)
    return done.returncode, done.stdout


@pytest.mark.timeout(1800)  # it may build the fake device
def test_small_run(tmp_path: Path) -> None:
    fake_device.build()
    parts = ["collectives", "streams", "killed rank", "contexts"]
    only = [word for part in parts for word in ("--only", part)]
    status, said = check("--device", "fake", "--small", *only, "--output", str(tmp_path))
    assert status == 0, said
    found = json.loads((tmp_path / "report.json").read_text())
    states = {part["part"]: part["state"] for part in found["parts"]}
    assert states.pop("contexts") == NOT_RUN
    assert set(states.values()) == {PASSED}, said
    assert found["about"]["device"] == "fake" and found["about"]["torch"]
    page = (tmp_path / "report.md").read_text()
    assert page in said
    assert "3 passed, 0 failed, 1 not run" in page
    assert "| contexts | " in page and "only CUDA has it" in page


def test_nothing_to_check(tmp_path: Path) -> None:
    status, said = check("--wheel", str(tmp_path / "no.whl"), "--output", str(tmp_path))
    assert status == 2
    assert "no.whl" in said
    if not torch.cuda.is_available():
        status, said = check("--device", "cuda", "--output", str(tmp_path))
        assert (status, said) == (2, "gpu_check: torch finds no CUDA device\n")


def run(
    tmp_path: Path, programs: dict[str, str], limit_s: float = 60.0, budget_s: float = 100.0
) -> dict[str, Result]:
    """Parts with these programs, on two ranks of the CPU."""
    parts = []
    for name, text in programs.items():
        program = tmp_path / f"{name}.py"
        program.write_text(text)
        parts.append(Part(name, "", str(program), limit_s))
    runner = Runner(Choice("cpu", True), time.monotonic() + budget_s, lambda result: None)
    runner.run(parts, at_once=2)
    return {result.part.name: result for result in runner.results}


def test_parts_that_go_wrong_do_so_alone(tmp_path: Path) -> None:
    results = run(
        tmp_path,
        {
            "good": JOINED
            + "    rank.tell('said', rank.number)\n    dist.destroy_process_group()\n",
            "wrong": JOINED
            + "    rank.expect(rank.number == 0, 'one and', 1)\n    dist.barrier()\n",
            "differs": "import torch\n"
            "def run(rank):\n    rank.same(torch.ones(2), torch.zeros(2), 'sum', rank.number)\n",
            "raises": "def run(rank):\n    raise ValueError('as asked')\n",
            "dies": "import os\ndef run(rank):\n    os.kill(os.getpid(), 9)\n",
            "cannot": "from gpu_parts.rank import CannotRunError\n"
            "def run(rank):\n    raise CannotRunError('nothing there')\n",
        },
    )
    states = {name: (result.state, sorted(result.words)) for name, result in results.items()}
    assert states == {
        "good": (PASSED, []),
        "wrong": (FAILED, ["rank 1: one and 1"]),
        "differs": (
            FAILED,
            [f"rank {number}: sum {number} 4 of 8 bytes differ, from 2 to 7" for number in (0, 1)],
        ),
        "raises": (FAILED, states["raises"][1]),
        "dies": (FAILED, ["rank 0: ended by SIGKILL", "rank 1: ended by SIGKILL"]),
        "cannot": (NOT_RUN, ["nothing there"]),
    }
    assert results["good"].told == {"said": 0}
    raised = states["raises"][1]
    assert raised == [f"rank {number}: ValueError: as asked" for number in range(2)]
    assert "in run" in results["raises"].log


def test_a_part_that_hangs_tells_where_and_what_it_had_found(tmp_path: Path) -> None:
    results = run(tmp_path, {"hangs": HANGS}, limit_s=3)
    words = results["hangs"].words
    assert results["hangs"].state == FAILED
    assert words[0].startswith("out of time"), words
    assert {"rank 0: found early", "rank 1: found early"} <= set(words)
    assert "(most recent call first)" in results["hangs"].log and "in run" in results["hangs"].log


def test_an_end_between_two_looks_is_not_missed(tmp_path: Path) -> None:
    program, may_end = tmp_path / "ends.py", tmp_path / "may end"
    os.mkfifo(may_end)
    program.write_text(f"def run(rank):\n    open({str(may_end)!r}).read()\n")
    running = Running(Part("ends", "", str(program), 60.0, ranks=1), Choice("cpu", True), 60.0)
    try:
        assert not running.is_over()
        with may_end.open("w"):
            pass
        for process in running._processes:
            process.join()
        # It is signalled once more, soon after, when the processes' server closes its end.
        assert wait(running.sentinels, timeout=60), "nobody would look again before the limit"
        assert running.is_over()
    finally:
        running.kill()
    assert running.result().state == PASSED


def test_without_time_nothing_is_begun(tmp_path: Path) -> None:
    result = run(tmp_path, {"late": HANGS}, budget_s=1)["late"]
    assert (result.state, result.words) == (NOT_RUN, ["no time was left"])


def test_every_part_has_a_program_and_runs_on_a_gpu() -> None:
    assert len({part.name for part in PARTS}) == len(PARTS)
    for part in PARTS:
        assert (ROOT / "scripts" / "gpu_parts" / part.program).is_file(), part.name
        assert "cuda" not in part.lacks, part.name


def test_a_table_takes_any_words_and_shows_figures() -> None:
    rows = [{"bytes": 8, "ours": 1.5, "theirs": 20.0}, {"bytes": 1 << 21, "ours": 3, "theirs": 4}]
    told = {"words": "a|b\nc", "median us": rows}
    results = [Result(PARTS[0], FAILED, [f"no {n}" for n in range(5)], 1.2, told)]
    page = report.markdown({"GPU": "none"}, results)
    assert "| no 0; no 1; no 2; and 2 more; words: a\\|b c |" in page
    assert "| 8 B | 1.5 | 20 |\n| 2 MiB | 3 | 4 |" in page
    assert page.endswith("0 passed, 1 failed, 0 not run\n")
