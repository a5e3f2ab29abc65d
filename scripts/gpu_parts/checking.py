# SPDX-License-Identifier: Apache-2.0
"""One run: which parts, how many at once, what is said meanwhile. Loads torch, so after the installation."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import fake_device

from gpu_parts import machine, report
from gpu_parts.installation import NothingToCheckError
from gpu_parts.parts import PARTS, Part
from gpu_parts.runner import FAILED, MOST_AT_ONCE, PASSED, Choice, Result, Runner, ask, preload

LOG_SHOWN = 3000
CORES_OF_A_PART = 2


def chosen_parts(names: Sequence[str]) -> list[Part]:
    return [part for part in PARTS if not names or part.name in names]


def say(result: Result) -> None:
    print(f"{result.part.name}: {result.state} in {result.seconds:.1f} s  {report.seen(result)}")
    if result.state == FAILED and result.log:
        print(result.log[-LOG_SHOWN:])
    print(end="", flush=True)


def check(
    device: str | None, small: bool, names: Sequence[str], how: str, end: float, folder: Path
) -> int:
    """The exit status. Raises NothingToCheckError."""
    preload()
    there = ask(machine.device_there)
    device = device or there
    if device == "cuda" != there:
        raise NothingToCheckError("torch finds no CUDA device")
    if device == "fake":
        fake_device.build()
    about = {**ask(machine.found, device), "rocecoll": how, "sizes": "small" if small else "full"}
    print("; ".join(f"{name} {value}" for name, value in about.items()), flush=True)
    runner = Runner(Choice(device, small), end, say)
    try:
        runner.run(
            chosen_parts(names),
            at_once=max(1, min(MOST_AT_ONCE, len(os.sched_getaffinity(0)) // CORES_OF_A_PART)),
        )
    finally:
        print(f"\n{report.write(folder, about, runner.results)}", flush=True)
        print(f"gpu_check: report.md, report.json and log.txt are in {folder}", flush=True)
    states = [result.state for result in runner.results]
    return 0 if FAILED not in states and PASSED in states else 1
