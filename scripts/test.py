# SPDX-License-Identifier: Apache-2.0
"""Builds the C++ tests, runs every test, says how long each part took, and ends in one summary line."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated

import test_table
import typer
from cpp_build import build_directory, build_tests, configure_tests
from test_report import Tally, read_ctest, read_junit
from test_steps import GRACE_S, GUARD_S, ROOT, Step, console, costs, run_step, take_interrupts

# Each test has its own time limit, so that a busy machine or one hang does not cost the others: a case of
# GoogleTest has it here, a Python test in pyproject.toml, a step of a bed in softroce_bed/roce.py.
CPP_CASE_LIMIT_S = 900
# If a Python test is in C code that does not return, pyproject.toml's limit cannot end it: then its
# process is killed, and a new one continues with the next test.
PYTHON_PROCESS_LIMIT_S = 2400
MAX_PYTHON_PROCESSES = 50
# How many run at a time: much of a test is waiting, for example for a timeout. Each has ranks of its own,
# so more than a few would only take memory.
PYTHON_PROCESSES = min(os.cpu_count() or 1, 4)
# How long the swarm looks for bugs with seeds that no run before had.
FRESH_SECONDS, NIGHTLY_FRESH_SECONDS = 60, 3600


class Sanitizer(str, Enum):
    asan = "asan"
    tsan = "tsan"


@dataclass(frozen=True)
class Choice:
    """Which tests to run, and with which numbers of repetitions."""

    quick: bool = False
    nightly: bool = False
    keyword: str = ""

    def environment(self) -> dict[str, str]:
        """Variables for tests that run only some of their seeds and sizes, chosen by a seed of the run."""
        fresh_seconds = NIGHTLY_FRESH_SECONDS if self.nightly else FRESH_SECONDS
        found = {"TEST_SEED": str(run_seed()), "TEST_FRESH_SECONDS": str(fresh_seconds)}
        return found | ({"TEST_NIGHTLY": "1"} if self.nightly else {})


def run_seed() -> int:
    """The seed of a run: different for each commit, and the same for everybody who repeats the run."""
    if given := os.environ.get("TEST_SEED"):
        return int(given)
    command = ["git", "rev-parse", "--short=8", "HEAD"]
    asked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return int(asked.stdout[:8], 16) if asked.returncode == 0 else 1


def run_lint() -> Tally:
    if run_step("Format, lint and types", ["./scripts/lint"]) != 0:
        return Tally(failures=["scripts/lint"])
    return Tally(passed=1)


def run_documents() -> Tally:
    """Builds the documents from scratch: pages read before would not warn again."""
    command = [sys.executable, "-m", "sphinx", "-E", "-q", "-n", "-W", "--keep-going"]
    if run_step("Documents", [*command, "-c", "docs", ".", "build/docs"]) != 0:
        return Tally(failures=["the site made of docs"])
    return Tally(passed=1)


def run_cpp(preset: str, choice: Choice) -> Tally:
    """Configures, builds and runs every <layer>_test, on the package's core or as a sanitizer's preset."""
    jobs = str(os.cpu_count() or 1)
    if preset == "release":
        build, configure = build_directory(), configure_tests()
    else:
        build = ROOT / "build" / preset
        configure = ["cmake", "-S", str(ROOT / "csrc"), "--preset", preset]
        configure += ["-DROCECOLL_TEST_CASES=ON"]
    if run_step(f"C++ configure ({preset})", configure) != 0:
        return Tally(failures=["C++ configure"])
    if run_step(f"C++ build ({preset})", build_tests(build)) != 0:
        return Tally(failures=["C++ build"])
    report = build / "ctest.xml"
    report.unlink(missing_ok=True)
    command = ctest_command(build, report, jobs, choice)
    sanitizer = {
        "ASAN_OPTIONS": "allocator_may_return_null=1",  # tests ask for more than there is
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    }
    status = run_step(f"C++ tests ({preset})", command, **sanitizer, **choice.environment())
    tally = read_ctest(report)
    if status != 0 and not tally.failures:
        tally.failures.append(f"ctest ended with status {status}")
    return tally


def ctest_command(build: Path, report: Path, jobs: str, choice: Choice) -> list[str]:
    """The command. At the stop time ctest ends the cases that run, and reports them and those before."""
    stop = datetime.now() + timedelta(seconds=GUARD_S - GRACE_S)
    limit_s = CPP_CASE_LIMIT_S + (NIGHTLY_FRESH_SECONDS if choice.nightly else 0)
    command = ["ctest", "--test-dir", str(build), "-j", jobs, "--output-on-failure", "--progress"]
    command += ["--timeout", str(limit_s), "--stop-time", f"{stop:%H:%M:%S}"]
    if not choice.nightly:  # docs/style.md: names of tests of more than a few seconds end with Slow
        left_out = "(Slow|Nightly)" if choice.quick else "Nightly"
        command += ["--exclude-regex", f"{left_out}(/|$)"]
    if choice.keyword:  # Python's names are all_reduce, GoogleTest's AllReduce
        camel_case = choice.keyword.title().replace("_", "")
        command += ["--tests-regex", f"{choice.keyword}|{camel_case}"]
    return [*command, "--no-tests=ignore", "--output-junit", str(report)]


def run_python(choice: Choice) -> Tally:
    fake = [sys.executable, "tests/python/fake_device.py"]
    if run_step("Fake accelerator", fake) != 0:
        return Tally(failures=["tests/fake_device"])
    report = ROOT / "build" / "pytest.xml"
    report.unlink(missing_ok=True)
    command = pytest_command("tests/python", report)
    if choice.quick:
        command += ["--quick"]
    if choice.nightly:
        command += ["--nightly"]
    if choice.keyword:
        command += ["-k", choice.keyword]
    status = run_step("Python tests", command, **choice.environment())
    if status == 5 and choice.keyword:  # pytest: nothing selected
        return Tally()
    tally = read_junit(report)
    if status != 0 and not tally.failures:
        tally.failures.append(f"pytest ended with status {status}")
    return tally


def pytest_command(tests: str, report: Path) -> list[str]:
    """Runs the tests in a few processes; one that a test kills is replaced."""
    command = [sys.executable, "-m", "pytest", tests, "-q", "-ra"]
    command += [
        f"--numprocesses={PYTHON_PROCESSES}",
        f"--max-worker-restart={MAX_PYTHON_PROCESSES}",
    ]
    command += ["-o", f"faulthandler_timeout={PYTHON_PROCESS_LIMIT_S}"]
    command += ["-o", "faulthandler_exit_on_timeout=true"]
    return [*command, f"--junitxml={report}"]


def run_python_and_softroce(choice: Choice) -> Tally:
    """Runs Python's and the RoCE tests at once, as both mostly wait. The bed of the latter is made first."""
    program = [sys.executable, "scripts/softroce.py"]
    run_step("Soft-RoCE bed", [*program, "setup"])
    results = ROOT / "build" / "softroce"
    command = [*program, "test", "--results", str(results)]
    command += ["--nightly"] if choice.nightly else []
    output = ROOT / "build" / "softroce.log"
    with Step("RoCE tests", command, output, **choice.environment()) as roce:
        tally = run_python(choice)
        status = roce.end()
    roce_tally = Tally()
    for report in sorted(results.rglob("*.xml")):
        roce_tally.add(read_junit(report, f"{report.relative_to(results).parent}/"))
    if status != 0 and not roce_tally.failures and not roce_tally.skips:
        roce_tally.failures.append(f"scripts/softroce test ended with status {status}")
    tally.add(roce_tally)
    return tally


def run_torch_suite() -> Tally:
    """Runs PyTorch's own tests of a backend; a part of them is among the Python tests of every run."""
    command = [sys.executable, "scripts/torch_suite.py", "--nightly"]
    if run_step("PyTorch's own tests", command) != 0:
        return Tally(failures=["scripts/torch_suite --nightly"])
    return Tally(passed=1)


def run_all(choice: Choice, sanitizer: Sanitizer | None) -> Tally:
    tally = run_cpp(sanitizer.value if sanitizer else "release", choice)
    if sanitizer is not None:
        return tally
    if not choice.keyword:
        tally.add(run_lint())
        tally.add(run_documents())
    if choice.quick or choice.keyword:
        tally.add(run_python(choice))
    else:
        tally.add(run_python_and_softroce(choice))
    if choice.nightly and not choice.keyword:
        tally.add(run_torch_suite())
        tally.add(run_cpp("asan", Choice()))
    return tally


def main(
    quick: Annotated[bool, typer.Option("--quick", help="a part that takes minutes")] = False,
    nightly: Annotated[bool, typer.Option("--nightly", help="as ./scripts/nightly: hours")] = False,
    sanitizer: Annotated[Sanitizer | None, typer.Option(help="C++ tests only, under it")] = None,
    keyword: Annotated[str, typer.Option("-k", help="only tests whose name contains this")] = "",
) -> None:
    """Run every test of the C++ layers, of the Python package, and of RoCE in a bed for it."""
    take_interrupts()
    if quick and nightly:
        raise typer.BadParameter("--quick and --nightly exclude each other")
    earlier_s = float(os.environ.pop("TEST_SETUP_SECONDS", "0"))
    console.print(f"TEST_SEED={run_seed()} repeats what this run draws")
    tally = run_all(Choice(quick, nightly, keyword), sanitizer)
    # Names have parameters in brackets, which are no markup.
    console.print(test_table.parts(costs, earlier_s), markup=False)
    ordinary = not nightly and sanitizer is None
    console.print(test_table.slowest(tally.seconds, ordinary), markup=False)
    for note in tally.notes:
        console.print(note, markup=False)
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
