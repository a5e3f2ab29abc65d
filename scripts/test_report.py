# SPDX-License-Identifier: Apache-2.0
"""Counts what GoogleTest, CTest and pytest wrote as XML."""

from __future__ import annotations

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

    def add(self, other: Tally) -> None:
        self.passed += other.passed
        self.failures += other.failures
        self.skips += other.skips

    def summary(self) -> str:
        skipped = self.skips.total()
        return f"{self.passed} passed, {len(self.failures)} failed, {skipped} skipped"


def read_junit(path: Path) -> Tally:
    """One file of GoogleTest or pytest. A missing or broken file is a failure of its own."""
    tally = Tally()
    try:
        cases = list(ElementTree.parse(path).iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        tally.failures.append(f"{path.name}: no readable report ({error})")
        return tally
    for case in cases:
        name = f"{case.get('classname', '')}.{case.get('name', '')}"
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            tally.failures.append(name)
        elif skipped is not None:
            reason = (skipped.get("message") or skipped.text or "").strip()
            tally.skips[reason or f"{name} gave no reason"] += 1
        elif case.get("status") != "notrun":
            tally.passed += 1
    return tally


def read_ctest(ctest_report: Path, gtest_directory: Path) -> Tally:
    """All layers. An executable that ended badly without naming a failed test is one failure."""
    tally = Tally()
    try:
        cases = list(ElementTree.parse(ctest_report).iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        tally.failures.append(f"ctest wrote no readable report ({error})")
        return tally
    for case in cases:
        layer = case.get("name", "")
        gtest_report = gtest_directory / f"{layer}_test.xml"
        layer_tally = read_junit(gtest_report) if gtest_report.exists() else Tally()
        if case.get("status") != "run" and not layer_tally.failures:
            layer_tally.failures.append(f"{layer}_test (crashed or ran out of time)")
        tally.add(layer_tally)
    if not cases:
        tally.failures.append("ctest found no test executable")
    return tally
