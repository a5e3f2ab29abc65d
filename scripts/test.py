# SPDX-License-Identifier: Apache-2.0
"""Builds the C++ tests, runs every test, and ends in one summary line."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from test_report import Tally, read_ctest, read_junit

ROOT = Path(__file__).resolve().parent.parent
# A limit belongs to a single test, so that a busy machine or one hang does not cost the others: here
# to a case of GoogleTest, in pyproject.toml to a Python test, in softroce_bed/roce.py to a step.
CPP_CASE_LIMIT_S = 900
# Where a Python test sits in C code that does not return, pyproject.toml's limit cannot end it: then
# its process ends, and another one goes on with the next test.
PYTHON_PROCESS_LIMIT_S = 2400
MAX_PYTHON_PROCESSES = 50
# Those at a time: much of a test is waiting, as for a timeout. Each has ranks of its own, so beyond a
# few they would only take memory.
PYTHON_PROCESSES = min(os.cpu_count() or 1, 4)
# Against a hang of what runs the tests: no working run comes near.
GUARD_S = 3 * 3600
GRACE_S = 120  # from the guard on, to report what has finished and what was running

console = Console(highlight=False, soft_wrap=True)


class Sanitizer(str, Enum):
    asan = "asan"
    tsan = "tsan"


def take_interrupts() -> None:
    """What a shell starts in the background ignores SIGINT, and so would all that it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """What a step has left running, too: pytest, interrupted, may leave the process of its tests."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_step(title: str, command: list[str], **environment: str) -> int:
    """Runs one step in a process group of its own and says how long; ends all of it at the guard."""
    console.print(f"[bold]== {title}[/bold]  {shlex.join(command)}")
    started = time.monotonic()
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environment}, start_new_session=True
    )
    try:
        status = process.wait(timeout=GUARD_S)
        note = "" if status == 0 else f", exit status {status}"
    except subprocess.TimeoutExpired:
        status, note = 124, f": ended at the guard of {GUARD_S} s"
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=GRACE_S)
    finally:
        end_group(process)
    console.print(f"== {title}: {time.monotonic() - started:.1f} s{note}")
    return status


def run_lint() -> Tally:
    if run_step("Format, lint and types", ["./scripts/lint"]) != 0:
        return Tally(failures=["scripts/lint"])
    return Tally(passed=1)


def run_documents() -> Tally:
    """From scratch: what was read before would not warn again."""
    command = [sys.executable, "-m", "sphinx", "-E", "-q", "-n", "-W", "--keep-going"]
    if run_step("Documents", [*command, "-c", "docs", ".", "build/docs"]) != 0:
        return Tally(failures=["the site made of docs"])
    return Tally(passed=1)


def run_cpp(preset: str, quick: bool, keyword: str) -> Tally:
    """Configures, builds and runs every <layer>_test of one CMake preset."""
    build = ROOT / "build" / preset
    jobs = str(os.cpu_count() or 1)
    configure = ["cmake", "-S", str(ROOT / "csrc"), "--preset", preset]
    if run_step(f"C++ configure ({preset})", [*configure, "-DROCECOLL_TEST_CASES=ON"]) != 0:
        return Tally(failures=["C++ configure"])
    if run_step("C++ build", ["cmake", "--build", str(build), "-j", jobs]) != 0:
        return Tally(failures=["C++ build"])
    report = build / "ctest.xml"
    report.unlink(missing_ok=True)
    command = ctest_command(build, report, jobs)
    if quick:  # docs/style.md: what takes more than a few seconds is called Slow
        command += ["--exclude-regex", "Slow"]
    if keyword:  # Python's names are all_reduce, GoogleTest's AllReduce
        command += ["--tests-regex", f"{keyword}|{keyword.title().replace('_', '')}"]
    sanitizer = {"UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"}
    status = run_step("C++ tests", command, **sanitizer)
    tally = read_ctest(report)
    if status != 0 and not tally.failures:
        tally.failures.append(f"ctest ended with status {status}")
    return tally


def ctest_command(build: Path, report: Path, jobs: str) -> list[str]:
    """At the stop time, ctest ends the cases that run, and reports them and those before."""
    stop = datetime.now() + timedelta(seconds=GUARD_S - GRACE_S)
    command = ["ctest", "--test-dir", str(build), "-j", jobs, "--output-on-failure", "--progress"]
    command += ["--timeout", str(CPP_CASE_LIMIT_S), "--stop-time", f"{stop:%H:%M:%S}"]
    return [*command, "--no-tests=ignore", "--output-junit", str(report)]


def run_python(quick: bool, keyword: str) -> Tally:
    fake = [sys.executable, "tests/python/fake_device.py"]
    if run_step("Fake accelerator", fake) != 0:
        return Tally(failures=["tests/fake_device"])
    report = ROOT / "build" / "pytest.xml"
    report.unlink(missing_ok=True)
    command = pytest_command("tests/python", report)
    if quick:
        command += ["--quick"]
    if keyword:
        command += ["-k", keyword]
    status = run_step("Python tests", command)
    if status == 5 and keyword:  # pytest: nothing selected
        return Tally()
    tally = read_junit(report)
    if status != 0 and not tally.failures:
        tally.failures.append(f"pytest ended with status {status}")
    return tally


def pytest_command(tests: str, report: Path) -> list[str]:
    """The tests run in a few processes, of which each is replaced when a test takes it along."""
    command = [sys.executable, "-m", "pytest", tests, "-q", "-ra", "--durations=10"]
    command += [
        f"--numprocesses={PYTHON_PROCESSES}",
        f"--max-worker-restart={MAX_PYTHON_PROCESSES}",
    ]
    command += ["-o", f"faulthandler_timeout={PYTHON_PROCESS_LIMIT_S}"]
    command += ["-o", "faulthandler_exit_on_timeout=true"]
    return [*command, f"--junitxml={report}"]


def run_softroce() -> Tally:
    """Makes a bed for Soft-RoCE devices, the first time for minutes, and runs the RoCE tests in it."""
    program = [sys.executable, "scripts/softroce.py"]
    run_step("Soft-RoCE bed", [*program, "setup"])
    results = ROOT / "build" / "softroce"
    status = run_step("RoCE tests", [*program, "test", "--results", str(results)])
    tally = Tally()
    for report in sorted(results.rglob("*.xml")):
        tally.add(read_junit(report))
    if status != 0 and not tally.failures and not tally.skips:
        tally.failures.append(f"scripts/softroce test ended with status {status}")
    return tally


def main(
    quick: Annotated[bool, typer.Option("--quick", help="a part that takes minutes")] = False,
    sanitizer: Annotated[Sanitizer | None, typer.Option(help="C++ tests only, under it")] = None,
    keyword: Annotated[str, typer.Option("-k", help="only tests whose name contains this")] = "",
) -> None:
    """Run every test of the C++ layers, of the Python package, and of RoCE in a bed for it."""
    take_interrupts()
    tally = run_cpp(sanitizer.value if sanitizer else "release", quick, keyword)
    if sanitizer is None:
        if not keyword:
            tally.add(run_lint())
            tally.add(run_documents())
        tally.add(run_python(quick, keyword))
        if not quick and not keyword:
            tally.add(run_softroce())
    for reason, count in sorted(tally.skips.items()):
        console.print(f"skipped {count}: {reason}", markup=False)
    for name in tally.failures:
        console.print(f"failed: {name}", markup=False)
    if not tally.failures and tally.passed == 0:
        tally.failures.append("nothing was run")
        console.print("failed: nothing was run")
    console.print(tally.summary())
    raise typer.Exit(1 if tally.failures else 0)


if __name__ == "__main__":
    typer.run(main)
