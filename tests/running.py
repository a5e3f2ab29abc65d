# SPDX-License-Identifier: Apache-2.0
"""Hooks for pytest: a run that is interrupted reports the test that was running as failed, by name."""

from __future__ import annotations

import pytest

Location = tuple[str, int | None, str]

_running: dict[str, Location] = {}


def pytest_runtest_logstart(nodeid: str, location: Location) -> None:
    _running[nodeid] = location


def pytest_runtest_logfinish(nodeid: str) -> None:
    _running.pop(nodeid, None)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "???":  # of pytest-xdist: it took its process along and does not finish
        _running.pop(report.nodeid, None)


@pytest.hookimpl(tryfirst=True)  # before the reports are written
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if exitstatus != pytest.ExitCode.INTERRUPTED:
        return
    for nodeid, location in list(_running.items()):
        text = "it was running when the tests were ended"
        report = pytest.TestReport(nodeid, location, {}, "failed", text, "call")
        session.config.hook.pytest_runtest_logreport(report=report)
