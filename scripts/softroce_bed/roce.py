# SPDX-License-Identifier: Apache-2.0
"""The tests that run in a bed: one list, each on a freshly booted guest."""

from __future__ import annotations

import os
import shutil
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from softroce_bed.bed import EXIT_BROKEN, EXIT_LIMIT, Bed, BedError, Job

ROOT = Path(__file__).resolve().parents[2]
PINGPONG = "python scripts/softroce_bed/pingpong.py"


@dataclass(frozen=True)
class Step:
    """A command of the shell, run from the repository's root. It passes by its exit status.

    With `cases`, the command writes JUnit XML to $SOFTROCE_OUT and each of its cases counts.
    """

    name: str
    command: str
    guests: int = 1
    netem: str = ""
    status: int = 0
    limit_s: float = 120
    cases: bool = False


# The bed itself: what a command may rely on, and that trouble is noticed.
BED_TESTS = (
    Step("exit status", "exit 3", status=3),
    Step("time limit", "sleep 600", limit_s=5, status=EXIT_LIMIT),
    Step("kernel warning", "echo '<4>WARNING: planted by a test' >/dev/kmsg", status=EXIT_BROKEN),
    Step("scratch", "echo 1 >/tmp/scratch && echo 1 >/dev/shm/scratch && echo 1 >$SOFTROCE_OUT/x"),
    Step("host is read-only", "! touch /etc/softroce"),
    Step("rc", f"{PINGPONG} rc"),
    Step("ud", f"{PINGPONG} ud"),
    Step("rc, 1 % lost", f"{PINGPONG} rc --faulty", netem="loss 1%"),
    Step("rc, two guests", f"{PINGPONG} rc", guests=2),
    Step("ud, two guests", f"{PINGPONG} ud", guests=2),
    Step(
        "a guest is killed",
        "if [ $SOFTROCE_GUEST = 1 ]; then touch $SOFTROCE_KILL.1; sleep 600; fi",
        guests=2,
    ),
)

TESTS = BED_TESTS


def run_tests(bed: Bed, tests: Iterable[Step], results: Path) -> int:
    """Says how each went; leaves JUnit XML in `results`. Returns how many failed."""
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    suite = ElementTree.Element("testsuite", name=f"softroce-{bed.name}")
    failed = 0
    for test in tests:
        started = time.monotonic()
        problem = run_test(bed, test, results)
        seconds = time.monotonic() - started
        failed += bool(problem)
        verdict = f"FAILED: {problem}" if problem else "passed"
        print(f"softroce: {bed.name}: {test.name}: {verdict} ({seconds:.1f} s)", flush=True)
        if not test.cases or problem:
            case = ElementTree.SubElement(
                suite, "testcase", classname=suite.get("name", ""), name=test.name
            )
            if problem:
                ElementTree.SubElement(case, "failure", message=problem)
    ElementTree.ElementTree(suite).write(results / "bed.xml")
    return failed


def run_test(bed: Bed, test: Step, results: Path) -> str:
    """What is wrong, or ""."""
    job = Job(
        command=("bash", "-c", test.command),
        directory=ROOT,
        environment=dict(os.environ),
        guests=test.guests,
        netem=test.netem,
        limit_s=test.limit_s,
        out=results if test.cases else None,
    )
    try:
        status = bed.run(job)
    except BedError as error:
        return str(error)
    return "" if status == test.status else f"exit status {status}, not {test.status}"
