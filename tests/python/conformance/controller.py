# SPDX-License-Identifier: Apache-2.0
"""Runs upstream's tests in a worker process, and goes on in a new one when a test takes it down."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from launch import environment

START_LIMIT_S = 300.0
# Upstream ends a test's ranks at the limit and then collects their stacks, 5 s for each.
GRACE_S = 60.0
EXCEPTION = re.compile(r"^\s*([\w.]*(?:Error|Exception|Timeout|Exit)\b.*)", re.MULTILINE)


class Status(str, Enum):
    passed = "PASS"
    failed = "FAIL"
    skipped = "SKIP"


@dataclass(frozen=True)
class Setup:
    """`gate` is the backend whose tests are taken."""

    backend: str = "rocecoll"
    gate: str = "gloo"
    world_size: int = 3
    limit_s: int = 120
    grace_s: float = GRACE_S


@dataclass(frozen=True)
class Result:
    name: str
    status: Status
    reason: str = ""
    seconds: float = 0.0

    @property
    def line(self) -> str:
        """The reason in one line: that of a skip, or the first exception that is not the
        summary's."""
        if self.status is Status.failed:
            errors = [text for text in EXCEPTION.findall(self.reason) if "error code" not in text]
            return (errors or self.reason.splitlines() or [""])[0].strip()
        return self.reason.replace("\n", " ")


class Worker:
    """A process group of its own, which close() ends with everything that the tests started."""

    def __init__(self, setup: Setup, log: IO[bytes]) -> None:
        self._setup = setup
        self._connection, theirs = multiprocessing.Pipe()
        here = Path(__file__).resolve().parent
        paths = [str(here.parent), os.environ.get("PYTHONPATH", "")]
        variables = environment(
            CONFORMANCE_BACKEND=setup.backend,
            CONFORMANCE_GATE=setup.gate,
            CONFORMANCE_LIMIT_S=str(setup.limit_s),
            WORLD_SIZE=str(setup.world_size),
            PYTHONPATH=os.pathsep.join(filter(None, paths)),
            # The suite is about tensors of the CPU, and a fork server must not touch a device.
            CUDA_VISIBLE_DEVICES="",
            # Read while the suite is imported; each test then has directories of its own.
            TEMP_DIR="",
            INIT_METHOD="file:///each-test-has-its-own",
        )
        self.process = subprocess.Popen(
            [sys.executable, str(here / "worker.py"), str(theirs.fileno())],
            env=variables,
            cwd=here.parent,  # the fork server would find another rocecoll in the caller's
            stdout=log,
            stderr=log,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        try:
            self.names: list[str] = self._receive(START_LIMIT_S, "starting")
        except BaseException:
            self.close()
            raise

    def run(self, name: str) -> tuple[str, str]:
        """(status, reason); raises WorkerLostError when the worker died or is silent for too long."""
        with contextlib.suppress(BrokenPipeError):  # then there is nothing to receive either
            self._connection.send(name)
        status, reason = self._receive(self._setup.limit_s + self._setup.grace_s, name)
        return status, reason

    def close(self) -> None:
        self._connection.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _receive(self, limit_s: float, what: str) -> Any:
        try:
            if self._connection.poll(limit_s):
                return self._connection.recv()
        except (EOFError, ConnectionResetError):
            status = self.process.wait(timeout=START_LIMIT_S)
            raise WorkerLostError(f"{what}: the worker ended with status {status}") from None
        raise WorkerLostError(f"{what}: no result after {limit_s:.0f} s")


class WorkerLostError(Exception):
    """The process that runs the tests crashed or hangs."""


class Suite:
    """A context manager. The first worker starts with the first use."""

    def __init__(self, setup: Setup, log: IO[bytes]) -> None:
        self._setup = setup
        self._log = log
        self._worker: Worker | None = None

    def __enter__(self) -> Suite:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._drop()

    @property
    def worker(self) -> Worker:
        if self._worker is None:
            self._worker = Worker(self._setup, self._log)
        return self._worker

    def names(self) -> list[str]:
        return self.worker.names

    def run(self, name: str) -> Result:
        started = time.monotonic()
        try:
            status, reason = self.worker.run(name)
        except WorkerLostError as error:
            status, reason = "FAIL", str(error)
            self._drop()
        return Result(name, Status(status), reason, time.monotonic() - started)

    def _drop(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None
