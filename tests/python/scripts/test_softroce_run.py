# SPDX-License-Identifier: Apache-2.0
"""Jobs in guests: what they are given, how they end, and that nothing of them stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fake_bed import FakeMachine, is_gone, job
from launch import ROOT
from softroce_bed import guests
from softroce_bed.bed import EXIT_BROKEN, EXIT_LIMIT
from softroce_bed.console import Console
from softroce_bed.guests import run_guests
from waiting import wait_until

pytestmark = pytest.mark.quick

DEADLINE_S = 300


# A run ends as its command does.


def test_output_and_exit_status(capfd: pytest.CaptureFixture[str]) -> None:
    status = run_guests(FakeMachine(), job("sh", "-c", "echo out; echo err >&2; exit 3"))
    assert status == 3
    assert capfd.readouterr() == ("out\n", "err\n")


def test_arguments_directory_and_environment_arrive(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    odd = "a 'b' \"c\" $d `e`\n\\ *"
    directory = tmp_path / "with space"
    directory.mkdir()
    program = "import os, sys; print([sys.argv[1], os.environ['ODD'], os.getcwd(), 'LC_ALL' in os.environ])"
    environment = {"PATH": os.environ["PATH"], "ODD": odd, "BASH_FUNC_f%%": "() { :; }"}
    arguments = (sys.executable, "-c", program, odd)
    status = run_guests(
        FakeMachine("export LC_ALL=C"),
        job(*arguments, directory=directory, environment=environment),
    )
    assert status == 0
    assert capfd.readouterr().out == f"{[odd, odd, str(directory), False]}\n"


def test_signals_work_in_the_job() -> None:
    """If any were ignored, the job would inherit that all the way from the supervisor."""
    assert run_guests(FakeMachine(), job("sh", "-c", "kill -TERM $$; exit 1")) == 128 + 15


def test_two_guests_say_who_speaks_and_the_first_failure_counts(
    capfd: pytest.CaptureFixture[str],
) -> None:
    script = "echo $SOFTROCE_DEVICES; exit $((SOFTROCE_GUEST * 5))"
    assert run_guests(FakeMachine(), job("sh", "-c", script, guests=2)) == 5
    assert sorted(capfd.readouterr().out.splitlines()) == ["[0] rxa", "[1] rxb"]


def test_results_come_out_and_nothing_stays(tmp_path: Path) -> None:
    place = tmp_path / "place"
    script = f'echo $SOFTROCE_OUT >{place}; echo 1 >"$SOFTROCE_OUT/result"; exit 1'
    assert run_guests(FakeMachine(), job("sh", "-c", script, out=tmp_path / "out")) == 1
    assert (tmp_path / "out" / "result").read_text() == "1\n"
    assert not Path(place.read_text().strip()).parent.exists()


# And it ends when it must.


def test_time_limit_ends_everything(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pids = tmp_path / "pids"
    script = f"setsid sleep 600 & echo $$ $! >{pids}; wait"
    machine = FakeMachine("echo 'sockets: 17 in use'")
    assert run_guests(machine, job("bash", "-c", script, limit_s=10)) == EXIT_LIMIT
    shown = capfd.readouterr().err
    assert "time limit of 10 s; its console:\nsockets: 17 in use" in shown
    assert all(is_gone(int(pid)) for pid in pids.read_text().split())


def test_killed_guest_does_not_count(capfd: pytest.CaptureFixture[str]) -> None:
    script = "if [ $SOFTROCE_GUEST = 0 ]; then touch $SOFTROCE_KILL.1; else sleep 600; fi"
    assert run_guests(FakeMachine(), job("sh", "-c", script, guests=2)) == 0
    assert "guest 1: killed" in capfd.readouterr().err


def test_wire_of_a_killed_guest_takes_frames(capfd: pytest.CaptureFixture[str]) -> None:
    """It takes more of them than a socket holds, and never refuses any."""
    program = (
        "import os, pathlib, socket\n"
        "pathlib.Path(os.environ['SOFTROCE_KILL'] + '.1').touch()\n"
        "wire = socket.socket(fileno=int(os.environ['WIRE_FD']))\n"
        "print(sum(wire.send(bytes(4000)) for _ in range(2000)))\n"
    )
    script = 'if [ $SOFTROCE_GUEST = 0 ]; then "$0" -c "$1"; else sleep 600; fi'
    command = ("sh", "-c", script, sys.executable, program)
    assert run_guests(FakeMachine(), job(*command, guests=2, limit_s=DEADLINE_S)) == 0
    assert "[0] 8000000" in capfd.readouterr().out


def test_guest_that_goes_away_is_a_failure(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_guests(FakeMachine("echo last words; exit 0"), job("true")) == EXIT_BROKEN
    assert "last words" in capfd.readouterr().err


@pytest.mark.parametrize(
    "complaint",
    [
        "WARNING: CPU: 0 PID: 1 at rxe.c:1",
        "UML ran out of memory on the host side! This can happen",
    ],
)
def test_complaint_of_the_kernel_is_a_failure(
    capfd: pytest.CaptureFixture[str], complaint: str
) -> None:
    machine = FakeMachine(f"echo 'booted'; echo '[1.0] {complaint}'")
    assert run_guests(machine, job("true")) == EXIT_BROKEN
    shown = capfd.readouterr().err
    assert complaint in shown and "booted" not in shown


def test_afterwards_runs_however_it_ended(tmp_path: Path) -> None:
    for limit_s, script in ((60, "true"), (1, "sleep 600")):
        mark = tmp_path / str(limit_s)
        run_guests(
            FakeMachine(afterwards=("touch", str(mark))), job("sh", "-c", script, limit_s=limit_s)
        )
        assert mark.exists()


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL],
    ids=lambda number: number.name,
)
def test_guests_end_with_their_runner(tmp_path: Path, number: signal.Signals) -> None:
    notes = tmp_path / "notes"
    program = (
        "import sys; sys.path[:0] = sys.argv[1].split(); import fake_bed as f;"
        "import softroce; from softroce_bed.guests import run_guests;"
        "run = lambda: run_guests(f.FakeMachine(), f.job('bash', '-c', sys.argv[2]));"
        "softroce.application = run; softroce.main()"
    )
    script = f'sleep 600 & echo "$$ $! $SOFTROCE_OUT" >{notes}; wait'
    path = f"{ROOT / 'tests' / 'python'} {ROOT / 'scripts'}"
    runner = subprocess.Popen([sys.executable, "-c", program, path, script])
    try:
        wait_until(lambda: notes.exists() and notes.read_text().endswith("\n"), "notes are written")
        runner.send_signal(number)
        status = runner.wait(DEADLINE_S)
    finally:
        runner.kill()
        runner.wait()
    assert status == (-number if number is signal.SIGKILL else 128 + number)
    *pids, out = notes.read_text().split()
    wait_until(lambda: all(is_gone(int(pid)) for pid in pids), "the guests have ended")
    wait_until(lambda: not Path(out).parent.exists(), "their files are gone")


def test_console_is_bounded_and_quiet_kernels_are_fine() -> None:
    console = Console()
    console.feed(b"[0.1] all is well\n" * 100_000)
    assert console.complaint() == ""
    assert len(console.text) <= 256 * 1024


def test_scripts_of_the_guests_are_valid() -> None:
    for name in guests.GUEST_SCRIPTS:
        subprocess.run(["bash", "-n", guests.HERE / name], check=True, timeout=DEADLINE_S)
