# SPDX-License-Identifier: Apache-2.0
"""A `python` that forks programs from a process that has torch: program_server.py and its stand-ins."""

from __future__ import annotations

import atexit
import contextlib
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import psutil

DIRECTORY = Path(__file__).resolve().parent
END_LIMIT_S = 60


class ForkedPrograms:
    """Started by the first request for its `python`."""

    def __init__(self) -> None:
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._server: subprocess.Popen[bytes] | None = None
        atexit.register(self.end)

    def python(self, environment: Mapping[str, str]) -> str:
        """A command like the interpreter's. `environment` is that of most programs. They also have
        PYTHON_EXEC=python, so that torchrun starts the same."""
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="rocecoll-test-")
            self._start(Path(self._directory.name), environment)
        return str(Path(self._directory.name) / "python")

    def _start(self, directory: Path, environment: Mapping[str, str]) -> None:
        path, python = str(directory / "socket"), directory / "python"
        stand_in = [sys.executable, "-I", "-S", str(DIRECTORY / "stand_in.py"), path]
        python.write_text(f'#!/bin/sh\nexec {shlex.join(stand_in)} "$@"\n')
        python.chmod(0o755)
        server = [sys.executable, str(DIRECTORY / "program_server.py")]
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(socket.SOMAXCONN)
            self._server = subprocess.Popen(
                [*server, str(listener.fileno()), str(directory)],
                stdin=subprocess.PIPE,
                env={**environment, "PYTHON_EXEC": str(python)},
                pass_fds=[listener.fileno()],
            )

    def descendants(self, process: psutil.Process) -> list[psutil.Process]:
        """Children of a process and so on, among them the program that it may stand for."""
        found: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            below = process.children()
            if self._directory is not None:
                with contextlib.suppress(OSError, ValueError, psutil.NoSuchProcess):
                    program = Path(self._directory.name, str(process.pid)).read_text()
                    below.append(psutil.Process(int(program)))
            for child in below:
                found += [*self.descendants(child), child]
        return found

    def end(self) -> None:
        """Ends the server and all programs that still run."""
        if self._server is not None and self._directory is not None:
            self._server.communicate(timeout=END_LIMIT_S)
            self._directory.cleanup()
            self._server = self._directory = None
