# SPDX-License-Identifier: Apache-2.0
"""The programs in examples/ do what their first lines and docs/examples.md say."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import torch
from launch import ROOT, run_program, torchrun, without_numpy

EXAMPLES = ROOT / "examples"


def test_train_digits(backend: str) -> None:
    output = torchrun(2, EXAMPLES / "train_digits.py", "--backend", backend, "--epochs", "1")
    assert '"epoch": 1' in output


def test_train_bytes_fsdp2() -> None:
    """The loss falls, by the same curve on 2 and on 3 ranks; the weights are spread over them."""
    curves = {}
    for ranks in (2, 3):
        output = torchrun(ranks, EXAMPLES / "train_bytes_fsdp2.py", "--steps", "40")
        curves[ranks] = [float(bits) for bits in re.findall(r": ([\d.]+) bits a byte", output)]
        kept = re.findall(r"keeps (\d+) of (\d+) weights", output)
        assert len(kept) == ranks, output
        assert sum(int(part) for part, _ in kept) == int(kept[0][1]), output
    assert len(curves[2]) == 3 and curves[2][-1] < curves[2][0] / 2, curves
    assert curves[2] == pytest.approx(curves[3], rel=0.01)


def test_compress_gradients() -> None:
    output = torchrun(2, EXAMPLES / "compress_gradients.py")
    lines = re.findall(r"(as is|fp16|PowerSGD) +([\d,]+) bytes .* loss ([\d.]+)", output)
    assert [name for name, _, _ in lines] == ["as is", "fp16", "PowerSGD"], output
    as_is, half, thin = (int(number.replace(",", "")) for _, number, _ in lines)
    assert half < 0.6 * as_is and thin < 0.05 * as_is, output
    losses = [float(loss) for _, _, loss in lines]
    assert losses == pytest.approx(losses[:1] * 3, rel=0.05), output
    assert losses[0] < 0.7, output


@pytest.mark.parametrize("ranks", [2, 3])
def test_lossy_link(ranks: int, tmp_path: Path, nightly: bool) -> None:
    """The same weights on every rank and over both networks, one of which loses packets."""
    weights, again = {}, {}
    steps = [] if nightly else ["--steps", "20"]
    for name, extra in (
        ("memory", without_numpy(tmp_path) if ranks == 2 or nightly else {}),
        ("lossy", {"ROCECOLL_FAULT": "loss=0.05,seed=1"}),
    ):
        output = torchrun(ranks, EXAMPLES / "lossy_link.py", *steps, **extra)
        weights[name] = re.findall(r"weights ([0-9a-f]{16})", output)
        again[name] = sum(map(int, re.findall(r"packets, (\d+) of them again", output)))
        path = "shm" if name == "memory" else "udp"
        assert output.count(f"over {path}: ") == ranks * (ranks - 1), output
    assert {name: len(found) for name, found in weights.items()} == dict.fromkeys(weights, ranks)
    assert len(set().union(*weights.values())) == 1, weights
    assert again["memory"] == 0 and again["lossy"] > 0, again


def test_survive_a_kill(tmp_path: Path) -> None:
    """The survivors name the dead rank; each step is done once, five of them after the restart."""
    checkpoint = tmp_path / "checkpoint.pt"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "1"]
    command += ["--nproc-per-node", "3", str(EXAMPLES / "survive_a_kill.py"), str(checkpoint)]
    output = run_program(command)
    named = re.findall(r"rank ([01]): rocecoll: .*: lost rank 2 \([\d.]+:\d+\)", output)
    assert sorted(named) == ["0", "1"], output
    assert re.findall(r"begins at step (\d)", output) == ["0", "5"], output
    assert re.findall(r"step (\d+): loss", output) == [*"0123456789"], output
    assert torch.load(checkpoint)["step"] == 10


def test_rejoin() -> None:
    """Two ranks die and are replaced, and the last loss is that of a run in which none does."""
    command = [sys.executable, str(EXAMPLES / "rejoin.py"), "--ranks", "3", "--steps", "9"]
    undisturbed = run_program([*command, "--kill", "99"])
    output = run_program([*command, "--kill", "3", "--kill", "6"])
    assert output.count("s after the kill") == 2 and output.count("goes on without") >= 4, output
    last = re.findall(r"step 9: loss ([\d.]+)", undisturbed)
    assert len(last) == 1 and re.findall(r"step 9: loss ([\d.]+)", output) == last, output


def test_train_with_torchft() -> None:
    """A replica is killed and comes back; test_torchft.py compares the losses."""
    pytest.importorskip("torchft", reason="torchft is not installed (docs/elastic.md says how)")
    program = str(EXAMPLES / "train_with_torchft.py")
    output = run_program([sys.executable, program, "--kill", "3"], fresh=True)
    assert re.search(r"2 replicas \([\d.]+ s after the kill\)", output), output
    assert "step 40: loss" in output, output


def test_trace_a_step(tmp_path: Path) -> None:
    output = torchrun(2, EXAMPLES / "trace_a_step.py", "--path", str(tmp_path / "step.json"))
    assert len(re.findall(r"all_reduce \|[ =]{48}\|", output)) == 3, output
    assert re.search(r"\d+% of the communication ran beside the computation", output), output
    files = [str(tmp_path / f"step.{rank}.json") for rank in range(2)]
    both = json.loads(run_program([sys.executable, "-m", "rocecoll", "trace", "--json", *files]))
    assert [(kind["operation"], kind["calls"]) for kind in both["kinds"]] == [("all_reduce", 6)]


@pytest.mark.quick
def test_every_example_is_described_and_tested() -> None:
    programs = {path.name for path in EXAMPLES.glob("*.py")}
    page = (ROOT / "docs" / "examples.md").read_text()
    assert set(re.findall(r"\(\.\./examples/(\w+\.py)\)", page)) == programs
    tests = {f"{name.removeprefix('test_')}.py" for name in globals() if name.startswith("test_")}
    assert programs <= tests
