# SPDX-License-Identifier: Apache-2.0
"""Counts the results that GoogleTest, CTest and pytest write as XML, and keeps the time of each test."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Tally:
    """Results of some test cases; skips are counted by reason, failures by name."""

    passed: int = 0
    failures: list[str] = field(default_factory=list)
    skips: Counter[str] = field(default_factory=Counter)
    seconds: list[tuple[float, str]] = field(default_factory=list)  # of each case
    notes: list[str] = field(default_factory=list)  # what passed tests report

    def add(self, other: Tally) -> None:
        self.passed += other.passed
        self.failures += other.failures
        self.skips += other.skips
        self.seconds += other.seconds
        self.notes += other.notes

    def summary(self) -> str:
        skipped = self.skips.total()
        return f"{self.passed} passed, {len(self.failures)} failed, {skipped} skipped"


def read_junit(path: Path, within: str = "") -> Tally:
    """Reads one file of GoogleTest or pytest. A missing or broken file counts as a failure.

    `within` goes before the names of tests that run several times, as a suite in different steps does.
    """
    tally = Tally()
    try:
        cases = list(ElementTree.parse(path).iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        tally.failures.append(f"{path.name}: no readable report ({error})")
        return tally
    for case in cases:
        name = f"{within}{case.get('classname', '')}.{case.get('name', '')}"
        tally.seconds.append((float(case.get("time") or 0), name))
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            tally.failures.append(name)
        elif skipped is not None:
            reason = (skipped.get("message") or skipped.text or "").strip()
            tally.skips[reason or f"{name} gave no reason"] += 1
        elif case.get("status") != "notrun":
            tally.passed += 1
    return tally


# Which seeds the swarm tried that no run before had, and how fast.
NOTE = re.compile(r"^fresh seeds .*", re.MULTILINE)
# What GTEST_SKIP() << REASON writes.
GTEST_SKIP = re.compile(r": Skipped\n(.*?)\n+\[  SKIPPED \]", re.DOTALL)


def read_ctest(path: Path) -> Tally:
    """Reads CTest's report, in which each case of GoogleTest is a test of its own."""
    tally = Tally()
    try:
        cases = list(ElementTree.parse(path).iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        tally.failures.append(f"ctest wrote no readable report ({error})")
        return tally
    for case in cases:
        name, failure = case.get("name", ""), case.find("failure")
        tally.seconds.append((float(case.get("time") or 0), name))
        tally.notes += NOTE.findall(case.findtext("system-out", ""))
        if case.find("skipped") is not None and case.get("status") == "notrun":
            reason = GTEST_SKIP.search(case.findtext("system-out", ""))
            tally.skips[reason[1].strip() if reason else f"{name} gave no reason"] += 1
        elif case.get("status") == "run" and failure is None:
            tally.passed += 1
        else:
            why = "" if failure is None else failure.get("message", "")
            tally.failures.append(f"{name} ({why})" if why else name)
    return tally
