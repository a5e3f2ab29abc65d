# SPDX-License-Identifier: Apache-2.0
"""Runs steps, as many side by side as the bed has room for, and leaves a report at any time.

Each runs in a process of its own, forked from this one: however it ends, the others go on. Its output and
its guests' is kept in a file until it has ended, and then shown at once.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import re
import shutil
import signal
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path

from processor_time import reaped_s

from softroce_bed.bed import EXIT_LIMIT, Bed, BedError, Job
from softroce_bed.roce import PYTEST_LIMIT_S, ROOT, Step
from softroce_bed.stopping import StoppedError

TEST_LIMIT_S = 600  # of one test of pytest
END_LIMIT_S = 60  # for guests to be ended
PR_SET_PDEATHSIG = 1
UNFINISHED = "it was running when the tests were ended"

_fork = multiprocessing.get_context("fork")


def empty(results: Path) -> None:
    """Makes the directory, or removes earlier results from it; other files stay."""
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


def case_of(bed: Bed, step: Step, seconds: float, problem: str = "") -> ElementTree.Element:
    names = {"classname": f"softroce.{bed.name}", "name": step.name}
    case = ElementTree.Element("testcase", names, time=f"{seconds:.3f}")
    if problem:
        ElementTree.SubElement(case, "failure", message=problem)
    return case


class Running:
    """A step that has begun."""

    def __init__(self, bed: Bed, step: Step, results: Path) -> None:
        self.step, self.title = step, f"softroce: {bed.name}: {step.name}"
        self.output = results / f"{file_name(step)}.log"
        self.output.touch()
        self.started = time.monotonic()
        self.answer, answer = _fork.Pipe(duplex=False)
        arguments = (bed, step, results, self.output, answer, os.getpid())
        self.process = _fork.Process(target=answer_problem, args=arguments)
        print(f"{self.title} begins", flush=True)
        self.process.start()
        answer.close()

    def seconds(self) -> float:
        return time.monotonic() - self.started

    def end(self) -> str:
        """Waits for it and shows its output. Returns what is wrong with it, or ""."""
        self.process.join(END_LIMIT_S)
        self.process.kill()
        self.process.join()
        problem, processor_s = "", 0.0
        try:
            problem, processor_s = self.answer.recv()
        except EOFError:
            problem = f"its process ended with status {self.process.exitcode}"
        self.answer.close()
        if said := self.output.read_text(errors="replace").strip("\n"):
            print(f"{self.title} says:\n{said}")
        verdict = f"FAILED: {problem}" if problem else "passed"
        took = f"{self.seconds():.1f} s, {processor_s:.1f} s of a processor"
        print(f"{self.title}: {verdict} ({took})", flush=True)
        return problem


def run_tests(bed: Bed, steps: Iterable[Step], results: Path) -> None:
    """Says how each step ended. `results` has JUnit XML of all that have finished, at any time.

    Steps begin in the order given, with no more guests at a time than the bed has room for.
    """
    cases: list[ElementTree.Element] = []
    waiting: list[Step] = []
    for step in steps:
        if (step.virtual or step.guests > 1) and not bed.is_virtual:
            cases.append(skipped(step.name, f"the {bed.name} bed is this machine's kernel"))
        else:
            waiting.append(step)
    running: list[Running] = []

    def report(*beginning: Step) -> None:
        """Writes the report; if it is the last one, steps that still run have failed."""
        unfinished = [(run.step, run.seconds()) for run in running]
        unfinished += [(step, 0.0) for step in beginning]
        write_cases([*cases, *(case_of(bed, *one, UNFINISHED) for one in unfinished)], results)

    room = bed.room()
    try:
        while waiting or running:
            while waiting and fits(waiting[0], running, room):
                report(waiting[0])
                running.append(Running(bed, waiting.pop(0), results))
            ended = wait([run.process.sentinel for run in running])
            for run in [run for run in running if run.process.sentinel in ended]:
                running.remove(run)
                problem = run.end()
                if problem or not run.step.cases:
                    cases.append(case_of(bed, run.step, run.seconds(), problem))
            report()
    finally:
        for run in running:
            run.process.terminate()
        for run in running:
            run.end()
    report()


def fits(step: Step, running: Sequence[Running], room: int) -> bool:
    """Alone, any step does."""
    return not running or step.guests + sum(run.step.guests for run in running) <= room


def file_name(step: Step) -> str:
    return re.sub(r"\W+", "_", step.name)


def answer_problem(
    bed: Bed, step: Step, results: Path, output: Path, answer: Connection, parent: int
) -> None:
    """Runs in a step's process. If its parent is killed, it is stopped, too."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        return
    descriptor = os.open(output, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1)
    try:
        problem = run_step(bed, step, results)
        answer.send((problem, reaped_s()))  # the warden has waited for all processes of the guests
    except StoppedError as stopped:
        print(stopped)


def run_step(bed: Bed, step: Step, results: Path) -> str:
    """What is wrong with it, or ""."""
    out = results / file_name(step)
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
