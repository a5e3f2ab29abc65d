# SPDX-License-Identifier: Apache-2.0
"""./scripts/test: a test that hangs fails alone and by name, and what has finished is reported."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import psutil
import pytest
from launch import ROOT, environment
from test_report import Tally, read_ctest, read_junit
from test_steps import GUARD_S, Cost, Step, costs, end_group, run_step, take_interrupts
from test_table import NO_REASON, parts, read_reasons, reason_of, slowest

DEADLINE_S = 300


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    """scripts/test.py; `test` is the name of another module."""
    spec = importlib.util.spec_from_file_location("rocecoll_runner", ROOT / "scripts" / "test.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in what a shell starts in the background
    take_interrupts()
    return module


def run(command: list[str], directory: Path) -> str:
    """Returns its output. The tests check that what hangs is ended, not how soon."""
    output = directory / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment(),
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        process.wait(timeout=DEADLINE_S)
    finally:
        end_group(process)
    return output.read_text("utf8", "replace")


CONFTEST = f"""
import os, signal, sys
import pytest
sys.path.append({os.fspath(ROOT / "tests")!r})
pytest_plugins = ["running"]

# Not by pytest-xdist's variable in the environment: where the tests of this file run in such a
# process themselves, as in ./scripts/test, both of pytest's processes in here have it.
def pytest_configure(config):
    global reports
    reports = not hasattr(config, "workerinput")

@pytest.hookimpl(trylast=True)
def pytest_runtest_logstart(nodeid):
    if "interrupted" in nodeid and reports:
        os.kill(os.getpid(), signal.SIGINT)
"""


def run_pytest(runner: ModuleType, directory: Path, tests: str, *options: str) -> tuple[Tally, str]:
    (directory / "conftest.py").write_text(CONFTEST)
    (directory / "pytest.ini").write_text("[pytest]\n")
    (directory / "test_it.py").write_text(f"import ctypes, time\n{tests}")
    report = directory / "report.xml"
    output = run([*runner.pytest_command("test_it.py", report), *options], directory)
    return read_junit(report), output


def test_python_test_that_hangs_fails_alone(runner: ModuleType, tmp_path: Path) -> None:
    tests = (
        "def test_before(): pass\n"
        "def test_hangs():\n    stuck_here = time.sleep(600)\n"
        "def test_after(): pass\n"
    )
    tally, output = run_pytest(runner, tmp_path, tests, "--timeout=2")
    assert tally.summary() == "2 passed, 1 failed, 0 skipped", output
    assert tally.failures == ["test_it.test_hangs"]
    assert "Timeout" in output and "stuck_here" in output


def test_python_test_that_hangs_in_c_fails_alone(runner: ModuleType, tmp_path: Path) -> None:
    """With the interpreter's lock held, so that no handler of a signal runs."""
    tests = (
        "def test_before(): pass\n"
        "def test_hangs(): ctypes.PyDLL(None).sleep(600)\n"
        "def test_after(): pass\n"
    )
    options = ("-o", "faulthandler_timeout=3")
    tally, output = run_pytest(runner, tmp_path, tests, *options)
    assert tally.summary() == "2 passed, 1 failed, 0 skipped", output
    assert tally.failures == ["test_it.test_hangs"]
    assert 'test_it.py", line 3 in test_hangs' in output


def test_interrupted_python_tests_are_reported(runner: ModuleType, tmp_path: Path) -> None:
    """As at the guard: in the process that reports, while another runs the tests."""
    tests = (
        "def test_before(): pass\ndef test_interrupted(): time.sleep(600)\ndef test_after(): pass\n"
    )
    tally, output = run_pytest(runner, tmp_path, tests, "--numprocesses=1")
    assert tally.summary() == "1 passed, 1 failed, 0 skipped", output
    assert tally.failures == ["test_it.test_interrupted"]
    assert "it was running when the tests were ended" in output


NAMES = [
    "rc.SlowCalls.EndsMaySubmitOthers",
    "rc.RcReturn.AHundredFlapsSlow",
    "conformance.sim/Transfers.SixtyFourMebibytesSlow/rc",
    "conformance.sim/Transfers.AllOfThemNightly/rc",
    "swarm.Swarm.AllSeedsNightly",
    "base.Nightly.IsOnlyASuite",
]


@pytest.mark.parametrize(
    ("how", "run_ones"),
    [({"quick": True}, [0, 5]), ({}, [0, 1, 2, 5]), ({"nightly": True}, [0, 1, 2, 3, 4, 5])],
)
def test_what_a_name_leaves_out(
    runner: ModuleType, tmp_path: Path, how: dict[str, bool], run_ones: list[int]
) -> None:
    (tmp_path / "CTestTestfile.cmake").write_text("".join(f"add_test({n} true)\n" for n in NAMES))
    command = runner.ctest_command(tmp_path, tmp_path / "ctest.xml", "1", runner.Choice(**how))
    output = run([*command, "--show-only"], tmp_path)
    assert [name for name in NAMES if f": {name}\n" in output] == [NAMES[i] for i in run_ones]


CASES = """
add_test(quick sh -c "echo fine")
add_test(hangs sh -c "echo '[ RUN      ] A.Hangs'; exec sleep 600")
set_tests_properties(hangs PROPERTIES TIMEOUT 1)
add_test(crashes sh -c "kill -SEGV $$")
"""


def test_case_of_googletest_that_hangs_fails_alone(runner: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "CTestTestfile.cmake").write_text(CASES)
    report = tmp_path / "ctest.xml"
    output = run(runner.ctest_command(tmp_path, report, "2", runner.Choice()), tmp_path)
    tally = read_ctest(report)
    assert tally.summary() == "1 passed, 2 failed, 0 skipped", output
    assert "hangs (Timeout)" in tally.failures
    assert "A.Hangs" in output


def test_no_case_of_googletest_is_no_failure(runner: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "CTestTestfile.cmake").write_text(CASES)
    report = tmp_path / "ctest.xml"
    run(runner.ctest_command(tmp_path, report, "2", runner.Choice(keyword="absent")), tmp_path)
    assert read_ctest(report).summary() == "0 passed, 0 failed, 0 skipped"


def test_what_is_ended_at_the_guard_may_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    take_interrupts()
    ready, reported, left = (tmp_path / name for name in ("ready", "reported", "left"))
    program = (
        "import pathlib, subprocess, sys, time\n"
        "ready, reported, left = map(pathlib.Path, sys.argv[1:])\n"
        "left.write_text(str(subprocess.Popen(['sleep', '3600']).pid))\n"
        "try:\n    ready.touch(); time.sleep(600)\n"
        "except KeyboardInterrupt: reported.touch()\n"
    )
    wait = subprocess.Popen.wait

    def wait_until_ready(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        """The guard, hours away, comes once the program is ready for it."""
        if timeout != GUARD_S:
            return wait(process, timeout)
        deadline = time.monotonic() + DEADLINE_S
        while not ready.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        raise subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", wait_until_ready)
    command = [sys.executable, "-c", program, *map(os.fspath, (ready, reported, left))]
    assert run_step("it hangs", command) != 0
    assert reported.exists()
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(left.read_text())).wait(DEADLINE_S)


def test_a_step_beside_others_is_shown_whole_at_its_end(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    burns = "import time\nwhile time.process_time() < 0.3: pass\nprint('burnt')"
    with Step("aside", [sys.executable, "-c", burns], tmp_path / "output") as aside:
        assert run_step("in front", ["echo", "fine"]) == 0
        assert aside.end() == 0
    said = capfd.readouterr().out
    assert said.index("\nfine\n") < said.index("\nburnt\n")
    front, back = costs[-2:]
    assert (front.title, back.title) == ("in front", "aside")
    assert front.processor_s < 0.3 <= back.processor_s
    assert back.seconds > 0


def test_a_step_whose_neighbour_fails_ends_with_it(tmp_path: Path) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        Step("aside", ["sleep", "3600"], tmp_path / "output") as aside,
    ):
        raise ZeroDivisionError
    assert aside.process.returncode == -signal.SIGKILL


def test_the_table_names_what_is_slow_and_why() -> None:
    seconds = [(1.0 * i, f"test_{i}") for i in range(12)] + [(25.0, "new"), (300.0, "rc.Old/2")]
    table = slowest(seconds).splitlines()[1:]
    assert [line.split()[1].rstrip(":") for line in table] == [
        *("rc.Old/2", "new"),
        *(f"test_{i}" for i in range(11, 3, -1)),
    ]
    assert NO_REASON in table[1] and "no reason" not in "".join(table[2:])
    at_full_numbers = slowest([(1.0 * i, f"test_{i}") for i in range(100)], ordinary=False)
    assert NO_REASON not in at_full_numbers and len(at_full_numbers.splitlines()) == 1 + 10
    assert reason_of("rc.Old/2", {"rc.*": "a real wire"}) == "a real wire"
    text = parts([Cost("C++ build", 61.2, 120.4), Cost("Documents", 9.0, 8.0)], 200.0)
    assert [line.split()[:2] for line in text.splitlines()[2:4]] == [["61", "120"], ["9", "8"]]
    assert "200" in text and "128" in text


def test_reasons_are_of_tests_that_there_are() -> None:
    sources = "\n".join(
        path.read_text("utf8", "replace")
        for path in [*ROOT.glob("tests/**/*.cc"), *ROOT.glob("tests/**/*.py")]
    ) + (ROOT / "scripts" / "softroce_bed" / "roce.py").read_text("utf8")
    for pattern, reason in read_reasons().items():
        words = re.findall(r"\w{6,}", pattern)
        assert words and all(word in sources for word in words[-1:]), f"no test: {pattern}"
        assert len(reason) > 10, pattern
