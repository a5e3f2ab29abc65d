# SPDX-License-Identifier: Apache-2.0
"""rocecoll explain: it knows every message of the pages, in logs and in lines of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from launch import environment, run_programs
from typer.testing import CliRunner, Result

from rocecoll.cli.app import app
from rocecoll.diagnosis import messages

pytestmark = pytest.mark.quick

LOST = (
    'rocecoll: group "0": all_reduce #16 (SUM, float32, 9 elements): lost rank 1 (192.0.2.2:35734): '
    "no process listens at its address any more; see rank 1's own log first"
)


def run(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(app, ["explain", *arguments], input=given, env={"COLUMNS": "80"})


@pytest.mark.parametrize("entry", messages.entries(), ids=lambda entry: entry.says[0])
def test_every_entry_explains_its_own_message(entry: messages.Entry) -> None:
    assert entry.because and entry.cure
    for phrase in entry.says:
        line = "[rank3]: " + phrase.replace("...", "3 (192.0.2.1)") + " and more"
        assert entry in [one.entry for one in messages.explain([line])]


def test_a_log_is_explained_in_its_own_order(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    late = "timed out after 30 s; not called by rank 2"
    log.write_text(f"epoch 3\n{late}\n[rank0]: {LOST}\n[rank2]: {LOST}\nat line 3\n")
    result = run(str(log))
    assert result.exit_code == 0
    assert [line.rstrip() for line in result.output.splitlines()] == [
        "timed out after ...",
        "    because: the group's timeout; `not called by` names who has not come, `no",
        "    answer from` who does not answer",
        "    cure: those ranks; else a longer `timeout`",
        "    docs/messages.md: While operations run",
        "lost ...: no process listens at its address any more (2 lines)",
        "    because: its process has ended",
        "    cure: its log, the kernel's log (out of memory)",
        "    docs/messages.md: While operations run",
    ]


def test_options_are_named_by_their_variables_and_links_by_their_pages() -> None:
    found = {entry.says[0]: entry for entry in messages.entries()}
    entry = found["its address is known, but no UDP packet came back"]
    assert entry.cure == "its log; firewalls.md; `ROCECOLL_SOCKET_IFNAME`"


def test_a_message_as_words_or_from_a_pipe() -> None:
    assert run(LOST).output == run(*LOST.split()).output == run(given=LOST).output
    [found] = json.loads(run("--json", LOST).stdout)
    assert found["line"] == LOST
    assert found["lines"] == 1
    assert found["entry"]["section"] == "While operations run"


def test_a_message_may_be_longer_than_the_name_of_a_file() -> None:
    assert run(LOST + " and more" * 500).output == run(LOST).output


def test_a_log_from_a_pipe_that_has_a_name() -> None:
    """As bash passes `<(zcat job.log.gz)`."""
    read, write = os.pipe()
    os.write(write, LOST.encode())
    os.close(write)
    try:
        assert run(f"/dev/fd/{read}").output == run(LOST).output
    finally:
        os.close(read)


def test_standard_input_need_not_be_text() -> None:
    command = [sys.executable, "-m", "rocecoll", "explain"]
    strict = environment(PYTHONIOENCODING="utf-8:strict")
    told = subprocess.run(
        command, input=b"\xff\xfe " + LOST.encode(), env=strict, capture_output=True, check=True
    )
    assert b"because: its process has ended" in told.stdout


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    log, other = tmp_path / "rank0.log", tmp_path / "rank1.log"
    log.write_text(LOST)
    for given in ([other], [log, other]):
        result = run(*map(str, given))
        assert result.exit_code == 1
        assert result.output.endswith(f"knows; there is no file {other} either\n")
    result = run(str(tmp_path))
    assert result.exit_code == 1
    assert f"Is a directory: '{tmp_path}'" in result.output


def test_other_words_are_not_explained() -> None:
    result = run("Segmentation fault")
    assert result.exit_code == 1
    assert result.output == (
        "rocecoll explain: no message of rocecoll that docs/messages.md knows\n"
    )
    assert run(given="").exit_code == 1


def test_an_installation_without_its_pages_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "directory", lambda: tmp_path)
    result = run("Segmentation fault")
    assert result.exit_code == 1
    assert "has no page with messages; install rocecoll again" in result.output


def test_an_error_that_was_really_raised() -> None:
    wrong = environment(ROCECOLL_PORT_RANGE="x")
    [failed] = run_programs([[sys.executable, "-c", "import rocecoll; rocecoll.init()"]], [wrong])
    result = run(given=failed.stdout)
    assert "a value that the option does not take" in result.output
