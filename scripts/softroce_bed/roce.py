# SPDX-License-Identifier: Apache-2.0
"""The tests that run in a bed: one list, each on a freshly booted guest."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from softroce_bed.bed import EXIT_BROKEN, EXIT_LIMIT, Bed, BedError, Job

ROOT = Path(__file__).resolve().parents[2]
PINGPONG = "python scripts/softroce_bed/pingpong.py"
# Limits are there to end what hangs, so they are far above what a step takes beside other work.
STEP_LIMIT_S = 900
PYTEST_LIMIT_S = 3600
TEST_LIMIT_S = 600  # of one test of pytest
REPORT_LIMIT_S = 300  # for pytest to report what has finished


@dataclass(frozen=True)
class Step:
    """A command of the shell, run from the repository's root. It passes by its exit status.

    With `cases`, the command leaves JUnit XML in $SOFTROCE_OUT and each of its cases counts.
    """

    name: str
    command: str
    guests: int = 1
    netem: str = ""
    status: int = 0
    limit_s: float = STEP_LIMIT_S
    cases: bool = False
    virtual: bool = False  # only where the bed has kernels of its own, as two guests always do


# The bed itself: what a command may rely on, and that trouble is noticed.
BED_STEPS = (
    Step("exit status", "exit 3", status=3),
    Step("time limit", "sleep 600", limit_s=5, status=EXIT_LIMIT),
    Step(
        "kernel warning",
        "echo '<4>WARNING: planted by a test' >/dev/kmsg",
        status=EXIT_BROKEN,
        virtual=True,
    ),
    Step("scratch", "echo 1 >/tmp/scratch && echo 1 >/dev/shm/scratch && echo 1 >$SOFTROCE_OUT/x"),
    Step("host is read-only", "! touch /etc/softroce", virtual=True),
    Step("rc", f"{PINGPONG} rc"),
    Step("ud", f"{PINGPONG} ud"),
    Step("rc, IPv6", f"{PINGPONG} rc --ipv6", virtual=True),
    Step("ud, IPv6", f"{PINGPONG} ud --ipv6", virtual=True),
    Step("rc, 1 % lost", f"{PINGPONG} rc --faulty", netem="loss 1%"),
    Step("rc, two guests", f"{PINGPONG} rc", guests=2),
    Step("ud, two guests", f"{PINGPONG} ud", guests=2),
    Step(
        "a guest is killed",
        "if [ $SOFTROCE_GUEST = 1 ]; then touch $SOFTROCE_KILL.1; sleep 600; fi",
        guests=2,
    ),
)

PYTEST = "python -m pytest -p no:cacheprovider -q -ra --durations=5"


def roce_step(name: str, *files: str) -> Step:
    """Files of tests/roce, all in one guest. Interrupted, pytest reports what has finished.

    PYTEST_LIMIT_S and, in pytest-timeout's words, PYTEST_TIMEOUT come from run_step.
    """
    paths = " ".join(f"tests/roce/test_{file}.py" for file in files)
    command = (
        f"timeout -s INT $PYTEST_LIMIT_S {PYTEST} --junitxml=$SOFTROCE_OUT/{files[0]}.xml {paths}"
    )
    return Step(name, command, cases=True, limit_s=PYTEST_LIMIT_S + REPORT_LIMIT_S)


def apart_step(name: str, arguments: str) -> Step:
    """Two ranks, each in a guest of its own."""
    command = f"PYTHONPATH=.:tests/roce python tests/roce/two_guests.py {arguments}"
    return Step(name, command, guests=2)


CPP_TARGETS = ("verbs_test", "conformance_test", "rocecoll_verbs_plugin")
CPP_BUILD = ROOT / "build" / "release"
CPP_BUILD_LIMIT_S = 1500


def cpp_step(name: str, test: str, arguments: str = "", netem: str = "") -> Step:
    """Tests of GoogleTest that want devices; $1 and $2 are their names, $3 and $4 the addresses."""
    command = (
        "set -- $SOFTROCE_DEVICES $SOFTROCE_ADDRESSES; "
        f"exec {CPP_BUILD}/{test} --gtest_output=xml:$SOFTROCE_OUT/{test}.xml {arguments}"
    )
    return Step(name, command, cases=True, netem=netem)


# What every transport is held to, over rc, ud and auto.
CONFORMANCE = "--rdma=$1@$3,$2@$4 --gtest_filter='*device_*-*Slow*'"


def build_cpp_tests() -> None:
    """On this machine; the guest sees the result."""
    jobs = str(os.cpu_count() or 1)
    for command in (
        ["cmake", "-S", str(ROOT / "csrc"), "--preset", "release"],
        ["cmake", "--build", str(CPP_BUILD), "-j", jobs, "--target", *CPP_TARGETS],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=CPP_BUILD_LIMIT_S)
        if done.returncode != 0:
            raise BedError(
                f"`{' '.join(command)}` failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
            )


ROCE_STEPS = (
    cpp_step("queue pairs and datagrams of a device", "verbs_test"),
    cpp_step("conformance", "conformance_test", CONFORMANCE),
    *(
        cpp_step(f"conformance, {netem}", "conformance_test", CONFORMANCE, netem=netem)
        for netem in ("loss 1%", "loss 5%", "delay 2ms", "duplicate 2%", "corrupt 1%")
    ),
    roce_step("every collective, clean and with faults", "matrix"),
    roce_step("what others see", "witness"),
    roce_step("RoCE goes away", "failover"),
    roce_step("killed ranks, many links", "kills", "cycles"),
    roce_step("training", "training_roce"),
    apart_step("every collective, two guests", "together rc ud auto"),
    apart_step("a guest is killed under rc", "killed rc"),
    apart_step("a guest is killed under ud", "killed ud"),
)

STEPS = BED_STEPS + ROCE_STEPS


def empty(results: Path) -> None:
    """Makes the directory, or takes earlier results out of it; anything else stays untouched."""
    if results.exists() and any(results.iterdir()) and not (results / "bed.xml").exists():
        raise BedError(f"{results} has something in it that is no result of earlier tests")
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    write_cases([], results)


def write_cases(cases: Iterable[ElementTree.Element], results: Path) -> None:
    suite = ElementTree.Element("testsuite", name="softroce")
    suite.extend(cases)
    ElementTree.ElementTree(suite).write(results / "bed.xml")


def skipped(name: str, reason: str) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname="softroce", name=name)
    ElementTree.SubElement(case, "skipped", message=reason)
    return case


def run_tests(bed: Bed, steps: Iterable[Step], results: Path) -> None:
    """Says how each went; leaves JUnit XML in `results`, at any time of what has finished."""
    cases: list[ElementTree.Element] = []
    for step in steps:
        if (step.virtual or step.guests > 1) and not bed.is_virtual:
            cases.append(skipped(step.name, f"the {bed.name} bed is this machine's kernel"))
            continue
        print(f"softroce: {bed.name}: {step.name}", flush=True)
        write_cases(
            [*cases, failed(bed, step, "it was running when the tests were ended")], results
        )
        started = time.monotonic()
        problem = run_step(bed, step, results)
        seconds = time.monotonic() - started
        verdict = f"FAILED: {problem}" if problem else "passed"
        print(f"softroce: {bed.name}: {step.name}: {verdict} ({seconds:.1f} s)", flush=True)
        if problem or not step.cases:
            cases.append(failed(bed, step, problem) if problem else case_of(bed, step))
    write_cases(cases, results)


def case_of(bed: Bed, step: Step) -> ElementTree.Element:
    return ElementTree.Element("testcase", classname=f"softroce.{bed.name}", name=step.name)


def failed(bed: Bed, step: Step, problem: str) -> ElementTree.Element:
    case = case_of(bed, step)
    ElementTree.SubElement(case, "failure", message=problem)
    return case


def run_step(bed: Bed, step: Step, results: Path) -> str:
    """What is wrong, or ""."""
    out = results / re.sub(r"\W+", "_", step.name)
    limits = {"PYTEST_TIMEOUT": TEST_LIMIT_S, "PYTEST_LIMIT_S": PYTEST_LIMIT_S}
    job = Job(
        command=("bash", "-c", step.command),
        directory=ROOT,
        environment=os.environ
        | {name: str(limit_s * bed.patience) for name, limit_s in limits.items()},
        guests=step.guests,
        netem=step.netem,
        limit_s=step.limit_s * bed.patience,
        out=out if step.cases else None,
    )
    try:
        status = bed.run(job)
    except BedError as error:
        return str(error)
    if status == EXIT_LIMIT != step.status:
        return f"ended at its limit of {job.limit_s:g} s"
    if status != step.status:
        return f"exit status {status}, not {step.status}"
    return "no JUnit XML was left" if step.cases and not any(out.glob("*.xml")) else ""
