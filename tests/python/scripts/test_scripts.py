# SPDX-License-Identifier: Apache-2.0
"""What decides whether ./scripts/test succeeds: the counting of results."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from launch import ROOT

pytestmark = pytest.mark.quick

GTEST = """<testsuites><testsuite name="Crc">
<testcase name="Good" classname="Crc" status="run" time="0.25" result="completed"/>
<testcase name="Off" classname="Crc" status="notrun" result="suppressed"/>
<testcase name="Bad" classname="Crc" status="run"><failure message="1 != 2"/></testcase>
<testcase name="Bare" classname="Crc" status="run" result="skipped">
<skipped message="no offload"/></testcase></testsuite></testsuites>"""

CTEST = """<testsuite>
<testcase name="base.Crc.Good" status="run" time="1.5"><system-out>
fresh seeds 8388608 to 8388657: 49 in 5 s, 9.5 a second
</system-out></testcase>
<testcase name="base.Crc.Bad" status="fail"><failure message=""/></testcase>
<testcase name="base.Crc.Slow" status="fail"><failure message="Timeout"/></testcase>
<testcase name="base.Crc.Gone" status="notrun"><failure message="Unable to find it"/></testcase>
<testcase name="base.Crc.Bare" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
<system-out>[ RUN      ] Crc.Bare
crc_test.cc:12: Skipped
no offload

[  SKIPPED ] Crc.Bare (0 ms)
</system-out></testcase></testsuite>"""


@pytest.fixture(scope="module")
def report():
    path = ROOT / "scripts" / "test_report.py"
    spec = importlib.util.spec_from_file_location("rocecoll_test_report", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def test_one_file(report, tmp_path: Path) -> None:
    path = tmp_path / "base_test.xml"
    path.write_text(GTEST)
    tally = report.read_junit(path)
    assert tally.summary() == "1 passed, 1 failed, 1 skipped"
    assert tally.failures == ["Crc.Bad"]
    assert dict(tally.skips) == {"no offload": 1}
    assert tally.seconds[0] == (0.25, "Crc.Good")
    assert report.read_junit(path, "rc/").seconds[0] == (0.25, "rc/Crc.Good")


@pytest.mark.parametrize("text", [None, "<testsuites><testcase"])
def test_missing_or_broken_file_is_a_failure(report, tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "base_test.xml"
    if text is not None:
        path.write_text(text)
    assert report.read_junit(path).summary() == "0 passed, 1 failed, 0 skipped"


def test_cases_of_ctest(report, tmp_path: Path) -> None:
    path = tmp_path / "ctest.xml"
    path.write_text(CTEST)
    tally = report.read_ctest(path)
    assert tally.summary() == "1 passed, 3 failed, 1 skipped"
    assert tally.failures == [
        "base.Crc.Bad",
        "base.Crc.Slow (Timeout)",
        "base.Crc.Gone (Unable to find it)",
    ]
    assert dict(tally.skips) == {"no offload": 1}
    assert tally.seconds[0] == (1.5, "base.Crc.Good")
    assert tally.notes == ["fresh seeds 8388608 to 8388657: 49 in 5 s, 9.5 a second"]


@pytest.mark.parametrize("text", [None, "<testsuite><testcase"])
def test_missing_report_of_ctest_is_a_failure(report, tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "ctest.xml"
    if text is not None:
        path.write_text(text)
    assert report.read_ctest(path).summary() == "0 passed, 1 failed, 0 skipped"
