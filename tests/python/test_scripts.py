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
<testcase name="Good" classname="Crc" status="run" result="completed"/>
<testcase name="Off" classname="Crc" status="notrun" result="suppressed"/>
<testcase name="Bad" classname="Crc" status="run"><failure message="1 != 2"/></testcase>
<testcase name="Bare" classname="Crc" status="run" result="skipped">
<skipped message="no offload"/></testcase></testsuite></testsuites>"""

CTEST = """<testsuite><testcase name="base" status="{base}"/>
<testcase name="engine" status="{engine}"/></testsuite>"""


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


@pytest.mark.parametrize("text", [None, "<testsuites><testcase"])
def test_missing_or_broken_file_is_a_failure(report, tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "base_test.xml"
    if text is not None:
        path.write_text(text)
    assert report.read_junit(path).summary() == "0 passed, 1 failed, 0 skipped"


def test_crashed_executable_is_a_failure(report, tmp_path: Path) -> None:
    (tmp_path / "base_test.xml").write_text(GTEST)
    ctest = tmp_path / "ctest.xml"
    ctest.write_text(CTEST.format(base="fail", engine="fail"))
    tally = report.read_ctest(ctest, tmp_path)
    # base says itself which test failed; engine wrote nothing.
    assert tally.failures == ["Crc.Bad", "engine_test (crashed or ran out of time)"]


def test_no_executable_is_a_failure(report, tmp_path: Path) -> None:
    ctest = tmp_path / "ctest.xml"
    ctest.write_text("<testsuite/>")
    assert report.read_ctest(ctest, tmp_path).failures
