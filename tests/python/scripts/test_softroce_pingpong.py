# SPDX-License-Identifier: Apache-2.0
"""The ping-pong of a bed, without one: which end ends the other, and when there are faults on the
wire."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from softroce_bed import pingpong

pytestmark = pytest.mark.quick

HANG = "import time; time.sleep(600)"


class Wire:
    """What pingpong.py sees of the kernel, and what it does to it."""

    def __init__(self, directory: Path) -> None:
        self.bytes, self.repeated, self.history = 0, 0, list[str]()
        self.seen = directory / "seen"

    def command(self, command: list[str], **unused: object) -> None:
        """tc."""
        self.history.append(command[2])
        if len(self.history) > 1 and command[2] == "delete":
            self.seen.touch()

    def carried(self) -> int:
        self.bytes += 100_000
        return self.bytes

    def repetitions(self) -> int:
        self.repeated += self.history[-1] == "add"
        return self.repeated


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Wire:
    made = Wire(tmp_path)
    monkeypatch.setenv("SOFTROCE_INTERFACES", "va")
    monkeypatch.setenv("SOFTROCE_NETEM", "loss 1%")
    monkeypatch.setattr(pingpong, "carried_bytes", made.carried)
    monkeypatch.setattr(pingpong, "repetitions", made.repetitions)
    return made


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def put(*texts: str) -> None:
        monkeypatch.setattr(
            pingpong, "command", lambda kind, number, count: [sys.executable, "-c", texts[number]]
        )

    return put


@pytest.mark.parametrize("failing", [0, 1])
def test_end_that_fails_ends_the_other(
    programs: Callable[..., None], capfd: pytest.CaptureFixture[str], failing: int
) -> None:
    """The other waits for it, and would do so for ever."""
    texts = [HANG, HANG]
    texts[failing] = "import sys; sys.exit('no completion')"
    programs(*texts)
    assert pingpong.run("rc", [0, 1], 1, None) == 1
    shown = capfd.readouterr().err
    assert f"end {failing} failed" in shown and "no completion" in shown


def test_client_tries_until_the_server_listens(
    programs: Callable[..., None], tmp_path: Path
) -> None:
    tried = tmp_path / "tried"
    client = (
        f"import pathlib, sys; tried = pathlib.Path({str(tried)!r})\n"
        "if not tried.exists():\n"
        "    tried.touch()\n"
        '    sys.exit("Couldn\'t connect to 127.0.0.1:18515")\n'
    )
    programs("", client)
    assert pingpong.run("rc", [0, 1], 1, None) == 0
    assert tried.exists()


def test_faults_are_there_only_while_messages_are_under_way(
    wire: Wire, programs: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    until_gone = (
        f"import pathlib, time\nwhile not pathlib.Path({str(wire.seen)!r}).exists():\n"
        "    time.sleep(0.01)\n"
    )
    programs(until_gone, until_gone)
    run = pingpong.subprocess.run
    monkeypatch.setattr(pingpong.subprocess, "run", wire.command)
    faults = pingpong.Faults("rc")
    assert pingpong.run("rc", [0, 1], 1, faults) == 0
    monkeypatch.setattr(pingpong.subprocess, "run", run)
    assert wire.history == ["delete", "add", "delete"]
    assert faults.state == "seen"
    assert wire.bytes > pingpong.UNDER_WAY * pingpong.MESSAGE_BYTES["rc"]
