# SPDX-License-Identifier: Apache-2.0
"""Runs commands that have to succeed, and programs that run in the background."""

from __future__ import annotations

import select
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

READY_LIMIT_S = 60
ENDING_LIMIT_S = 10


class CommandError(Exception):
    """The command is not installed, or has failed; the text says which, with its own error."""


def run(*command: str) -> str:
    """Returns what it printed."""
    try:
        # In a session of its own: Ctrl-C is for this program, which must still remove what it has made.
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, start_new_session=True
        )
    except FileNotFoundError as error:
        raise CommandError(f"{command[0]} is not installed") from error
    if done.returncode != 0:
        raise CommandError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


@contextmanager
def running(command: Sequence[str]) -> Iterator[str]:
    """Runs a program until the block's end. Yields the line that it prints when it is ready."""
    with tempfile.TemporaryFile("w+") as complaints:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, text=True)

        def failed(what: str) -> CommandError:
            complaints.seek(0)
            return CommandError(f"{' '.join(command)} {what}: {complaints.read().strip()}")

        try:
            assert process.stdout is not None
            with process.stdout as said:
                if not select.select([said], [], [], READY_LIMIT_S)[0]:
                    raise failed(f"is not ready after {READY_LIMIT_S} s")
                if not (line := said.readline()):
                    raise failed("has ended")
                cause: Exception | None = None
                try:
                    yield line.strip()
                except Exception as error:
                    cause = error
            if process.poll() is not None:  # which tells more than what came of it
                ended = f"has ended with status {process.returncode} while it was needed"
                raise failed(ended) from cause
            if cause is not None:
                raise cause
        finally:
            process.terminate()
            try:
                process.wait(ENDING_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
