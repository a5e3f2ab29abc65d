# SPDX-License-Identifier: Apache-2.0
"""scripts/softroce test: steps run side by side, each is counted, and none takes others along."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest
import softroce
from fake_bed import FakeBed, FakeMachine, is_gone
from softroce_bed import beds, roce, step_runner
from softroce_bed.bed import EXIT_LIMIT, BedError, Job
from softroce_bed.guests import run_guests
from softroce_bed.stopping import StoppedError, signals_raise
from test_report import read_junit
from typer.testing import CliRunner

pytestmark = pytest.mark.quick

DEADLINE_S = 300


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling takes minutes, and what is compiled is for real guests."""
    monkeypatch.setattr(roce, "build_cpp_tests", lambda: None)


class FakeRoom(FakeBed):
    """Steps' commands run on this machine, in guests that are processes."""

    is_virtual = True

    def __init__(self, room: int) -> None:
        super().__init__("uml", ready=True)
        self.guests = room

    def room(self) -> int:
        return self.guests

    def run(self, job: Job) -> int:
        return run_guests(FakeMachine(), job)


def test_tests_without_a_bed_are_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(beds, "all_beds", lambda: [FakeBed("native", "no rxe")])
    line = ["test", "--results", str(tmp_path / "r")]
    run = CliRunner().invoke(softroce.application, line)
    assert run.exit_code != 0
    assert "native: no rxe" in run.stdout
    assert run.stdout.endswith("0 passed, 0 failed, 1 skipped\n")


def test_steps_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    steps = [
        roce.Step("as it should", "", status=3),
        roce.Step("otherwise", ""),
        roce.Step("two", "", guests=2),
    ]
    monkeypatch.setattr(beds, "all_beds", lambda: [FakeBed("native")])
    monkeypatch.setattr(roce, "STEPS", steps)
    line = ["test", "--results", str(tmp_path / "r")]
    for _ in range(2):  # earlier results do not count
        run = CliRunner().invoke(softroce.application, line)
        assert run.exit_code == 1
        assert "otherwise: FAILED: exit status 3, not 0" in run.stdout
        assert run.stdout.endswith("1 passed, 1 failed, 1 skipped\n")


def test_steps_say_what_they_took(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The time, as for other tests, and the processor time in their guests."""
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    steps = [roce.Step("busy", f"{sys.executable} -c '{busy}'"), roce.Step("bad", "exit 1")]
    step_runner.run_tests(FakeRoom(1), steps, tmp_path)
    (shown,) = re.findall(r"busy: passed \((.+) s, (.+) s of a processor\)", capfd.readouterr().out)
    assert all(float(took_s) >= 0.3 for took_s in shown)
    taken = {name: took_s for took_s, name in read_junit(tmp_path / "bed.xml").seconds}
    assert taken["softroce.uml.busy"] >= 0.3 and taken["softroce.uml.bad"] > 0


@pytest.mark.parametrize(("option", "ran"), [([], "few None"), (["--nightly"], "all 1")])
def test_nightly_steps_are_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, option: list[str], ran: str
) -> None:
    seen = tmp_path / "seen"

    class Bed(FakeRoom):
        def run(self, job: Job) -> int:
            seen.write_text(f"{job.command[-1]} {job.environment.get('TEST_NIGHTLY')}")
            return 0

    monkeypatch.setattr(beds, "all_beds", lambda: [Bed(1)])
    monkeypatch.setattr(roce, "STEPS", [roce.Step("normal", "few")])
    monkeypatch.setattr(roce, "NIGHTLY_STEPS", [roce.Step("nightly", "all")])
    line = ["test", *option, "--results", str(tmp_path / "r")]
    CliRunner().invoke(softroce.application, line, env={"TEST_NIGHTLY": None})
    assert seen.read_text() == ran


def test_step_that_hangs_is_named_and_those_before_are_counted(tmp_path: Path) -> None:
    """The report is whole while a step runs, since nothing may come after it."""
    seen = tmp_path / "seen"

    class Bed(FakeBed):
        def run(self, job: Job) -> int:
            with seen.open("a") as file:
                file.write(f"{read_junit(tmp_path / 'bed.xml').summary()}\n")
            return EXIT_LIMIT if "hangs" in job.command else super().run(job)

    steps = [roce.Step("good", "", status=3), roce.Step("bad", "hangs", limit_s=7)]
    step_runner.run_tests(Bed("native"), steps, tmp_path)
    assert seen.read_text().splitlines()[1] == "1 passed, 1 failed, 0 skipped"
    text = (tmp_path / "bed.xml").read_text()
    assert "ended at its limit of 7 s" in text and step_runner.UNFINISHED not in text
    assert read_junit(tmp_path / "bed.xml").failures == ["softroce.native.bad"]


def test_cases_of_a_step_are_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cases = "<testsuite><testcase name='a'/><testcase name='b'/></testsuite>"
    steps = [
        roce.Step("two cases", f'echo "{cases}" >$SOFTROCE_OUT/x.xml', cases=True),
        roce.Step("the same", f'echo "{cases}" >$SOFTROCE_OUT/x.xml', cases=True),
        roce.Step("none", "true", cases=True),
    ]
    monkeypatch.setattr(beds, "all_beds", lambda: [FakeRoom(1)])
    monkeypatch.setattr(roce, "STEPS", steps)
    monkeypatch.setattr(sys, "argv", ["softroce", "test", "--results", str(tmp_path / "r")])
    with pytest.raises(SystemExit, match="1"):
        softroce.main()
    shown = capfd.readouterr().out
    assert "none: FAILED: no JUnit XML was left" in shown
    assert shown.endswith("4 passed, 1 failed, 0 skipped\n")


def meet(own: Path, other: Path) -> str:
    """A command that ends when another one has begun."""
    return f"touch {own}; until [ -e {other} ]; do sleep 0.02; done; echo both"


def test_steps_share_the_room(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Two steps meet, so they run at once; a step with two guests has the room alone."""
    here, there = tmp_path / "here", tmp_path / "there"
    steps = [
        roce.Step("first", meet(here, there), limit_s=DEADLINE_S),
        roce.Step("second", meet(there, here), limit_s=DEADLINE_S),
        roce.Step("pair", f"rm {here} 2>/dev/null || rm {there}", guests=2),
        roce.Step("last", f"[ ! -e {here} ] && [ ! -e {there} ]"),
    ]
    step_runner.run_tests(FakeRoom(2), steps, tmp_path)
    assert read_junit(tmp_path / "bed.xml").summary() == "4 passed, 0 failed, 0 skipped"
    shown = capfd.readouterr().out
    assert "uml: first says:\nboth\n" in shown and "uml: second says:\nboth\n" in shown
    assert shown.index("second: passed") < shown.index("pair begins")
    assert shown.index("pair: passed") < shown.index("last begins")


def test_step_whose_process_dies_fails_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    class Bed(FakeRoom):
        def run(self, job: Job) -> int:
            if "dies" in job.command:
                os.kill(os.getpid(), signal.SIGKILL)
            if "raises" in job.command:
                raise ZeroDivisionError("in the bed")
            return super().run(job)

    steps = [roce.Step(name, name) for name in ("dies", "raises", "true")]
    step_runner.run_tests(Bed(2), steps, tmp_path)
    assert read_junit(tmp_path / "bed.xml").summary() == "1 passed, 2 failed, 0 skipped"
    shown = capfd.readouterr().out
    assert "dies: FAILED: its process ended with status -9" in shown
    assert "ZeroDivisionError: in the bed" in shown


def test_stopped_tests_end_all_steps_and_name_them(tmp_path: Path) -> None:
    pids = [tmp_path / name for name in ("one", "two")]
    wait_for_both = f"until [ -s {pids[0]} ] && [ -s {pids[1]} ]; do sleep 0.02; done"
    steps = [
        roce.Step(path.name, f"echo $$ >{path}; {wait_for_both}; {stop}; sleep 600")
        for path, stop in zip(pids, (f"kill -TERM {os.getpid()}", "true"), strict=True)
    ]
    with signals_raise(), pytest.raises(StoppedError):
        step_runner.run_tests(FakeRoom(2), [*steps, roce.Step("never", "true")], tmp_path)
    assert read_junit(tmp_path / "bed.xml").failures == ["softroce.uml.one", "softroce.uml.two"]
    assert (tmp_path / "bed.xml").read_text().count(step_runner.UNFINISHED) == 2
    assert all(is_gone(int(path.read_text())) for path in pids)


def test_only_results_are_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(BedError, match="no result"):
        step_runner.empty(tmp_path)
    assert (tmp_path / "thesis.txt").exists()
