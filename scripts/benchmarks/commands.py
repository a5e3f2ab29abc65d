# SPDX-License-Identifier: Apache-2.0
"""Runs a command that has to succeed."""

from __future__ import annotations

import subprocess


class CommandError(Exception):
    """It is not installed, or has failed; the text says which, and in whose words why."""


def run(*command: str) -> str:
    """Returns what it printed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise CommandError(f"{command[0]} is not installed") from error
    if done.returncode != 0:
        raise CommandError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout
