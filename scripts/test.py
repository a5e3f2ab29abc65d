# SPDX-License-Identifier: Apache-2.0
"""Builds the C++ tests, runs every test, and ends in one summary line."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from test_report import Tally, read_ctest, read_junit

ROOT = Path(__file__).resolve().parent.parent
BUILD_LIMIT_S = 1500
CPP_LIMIT_S = 420
PYTHON_LIMIT_S = 780
QUICK_LIMIT_S = 180
BED_SETUP_LIMIT_S = 2400  # packages, and a kernel to build
BED_LIMIT_S = 900

console = Console(highlight=False, soft_wrap=True)


class Sanitizer(str, Enum):
    asan = "asan"
    tsan = "tsan"


def run_step(title: str, command: list[str], limit_s: float, **environment: str) -> int:
    """Runs one step in a process group of its own, ends all of it at the limit, says how long."""
    console.print(f"[bold]== {title}[/bold]  {shlex.join(command)}")
    started = time.monotonic()
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environment}, start_new_session=True
    )
    try:
        status = process.wait(timeout=limit_s)
        note = "" if status == 0 else f", exit status {status}"
    except subprocess.TimeoutExpired:
        status, note = 124, f": ended at the limit of {limit_s} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    console.print(f"== {title}: {time.monotonic() - started:.1f} s{note}")
    return status


def run_lint() -> Tally:
    if run_step("Format, lint and types", ["./scripts/lint"], QUICK_LIMIT_S) != 0:
        return Tally(failures=["scripts/lint"])
    return Tally(passed=1)


def run_cpp(preset: str, quick: bool, keyword: str) -> Tally:
    """Configures, builds and runs every <layer>_test of one CMake preset."""
    build = ROOT / "build" / preset
    jobs = str(os.cpu_count() or 1)
    configure = ["cmake", "-S", str(ROOT / "csrc"), "--preset", preset]
    if run_step(f"C++ configure ({preset})", configure, BUILD_LIMIT_S) != 0:
        return Tally(failures=["C++ configure"])
    if run_step("C++ build", ["cmake", "--build", str(build), "-j", jobs], BUILD_LIMIT_S) != 0:
        return Tally(failures=["C++ build"])
    results = build / "results"
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir()
    limit_s = QUICK_LIMIT_S if quick else CPP_LIMIT_S
    # Python's names are all_reduce, GoogleTest's AllReduce.
    spellings = {keyword, keyword.title().replace("_", "")}
    selected = ":".join(f"*{spelling}*" for spelling in sorted(spellings))
    environment = {
        "GTEST_OUTPUT": f"xml:{results}/",
        # docs/style.md: what takes more than a few seconds is called Slow.
        "GTEST_FILTER": selected + ("-*Slow*" if quick else ""),
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    }
    command = ["ctest", "--test-dir", str(build), "-j", jobs, "--output-on-failure"]
    command += ["--timeout", str(limit_s), "--output-junit", str(results / "ctest.xml")]
    run_step("C++ tests", command, 2 * limit_s, **environment)
    return read_ctest(results / "ctest.xml", results)


def run_python(quick: bool, keyword: str) -> Tally:
    fake = [sys.executable, "tests/python/fake_device.py"]
    if run_step("Fake accelerator", fake, BUILD_LIMIT_S) != 0:
        return Tally(failures=["tests/fake_device"])
    report = ROOT / "build" / "pytest.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "tests/python", "-q", "-ra", "--durations=10"]
    command += [f"--junitxml={report}"]
    if quick:
        command += ["--quick"]
    if keyword:
        command += ["-k", keyword]
    status = run_step("Python tests", command, QUICK_LIMIT_S if quick else PYTHON_LIMIT_S)
    if status == 5 and keyword:  # pytest: nothing selected
        return Tally()
    tally = read_junit(report)
    if status != 0 and not tally.failures:
        tally.failures.append(f"pytest ended with status {status}")
    return tally


def run_softroce() -> Tally:
    """Makes a bed for Soft-RoCE devices, the first time for minutes, and runs the RoCE tests in it."""
    program = [sys.executable, "scripts/softroce.py"]
    run_step("Soft-RoCE bed", [*program, "setup"], BED_SETUP_LIMIT_S)
    results = ROOT / "build" / "softroce"
    status = run_step("RoCE tests", [*program, "test", "--results", str(results)], BED_LIMIT_S)
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
    tally = run_cpp(sanitizer.value if sanitizer else "release", quick, keyword)
    if sanitizer is None:
        if not keyword:
            tally.add(run_lint())
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
