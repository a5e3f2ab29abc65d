# SPDX-License-Identifier: Apache-2.0
"""torchft's manager and lighthouse over groups of rocecoll, as in examples/train_with_torchft.py."""

from __future__ import annotations

import re
import sys

import pytest
from launch import ROOT, run_program

pytest.importorskip("torchft", reason="torchft is not installed (docs/elastic.md says how)")


STEPS = 16


def losses(*arguments: str) -> tuple[dict[int, float], str]:
    """Of each step, and everything that was printed."""
    program = str(ROOT / "examples" / "train_with_torchft.py")
    command = [sys.executable, program, "--steps", str(STEPS), "--pause", "0.1", *arguments]
    output = run_program(command, fresh=True)
    found = re.findall(r"step (\d+): loss ([\d.]+), \d replicas", output)
    return {int(step): float(loss) for step, loss in found}, output


def test_a_killed_replica_comes_back_and_changes_no_loss() -> None:
    """The others wait for it, as no step is made without all three."""
    together = ("--min-replicas", "3")
    undisturbed, output = losses(*together, "--kill", "1000")
    assert sorted(undisturbed) == list(range(1, STEPS + 1)), output
    assert "repeats step" not in output and "after the kill" not in output, output
    disturbed, output = losses(*together, "--kill", "5")
    assert re.search(r", 3 replicas \([\d.]+ s after the kill\)", output), output
    assert disturbed == pytest.approx(undisturbed, rel=1e-3), output
    assert undisturbed[STEPS] < undisturbed[1]


def test_the_others_name_it_and_go_on() -> None:
    """Two replicas, which share the samples of all three."""
    undisturbed, _ = losses("--kill", "1000")
    disturbed, output = losses("--kill", "5")
    assert re.search(r"repeats step .* rocecoll: .*: lost rank 2 \(", output), output
    assert re.search(r", 2 replicas \([\d.]+ s after the kill\)", output), output
    assert disturbed == pytest.approx(undisturbed, rel=1e-3), output
