# SPDX-License-Identifier: Apache-2.0
"""A rank's process: what the program of a part has at hand, and how what it finds gets out.

Every finding is written at once, so that a part that hangs or is killed has told what it had found.
"""

from __future__ import annotations

import faulthandler
import functools
import importlib.util
import json
import os
import sys
import time
import traceback
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from gpu_parts.device import Device

MOST_FAILURES = 20
THREADS = 2
TRACE_TAIL = 2000


class CannotRunError(Exception):
    """This machine cannot have the part; the text says why."""


@dataclass(frozen=True)
class Job:
    """One rank of one part. For a process of its own, so of plain values."""

    program: str
    number: int
    size: int
    device: str
    small: bool
    limit_s: float
    directory: str
    variables: dict[str, str]

    def path(self, suffix: str) -> Path:
        return Path(self.directory) / f"rank{self.number}.{suffix}"


class Rank:
    def __init__(self, job: Job) -> None:
        self.number, self.size, self.small = job.number, job.size, job.small
        self.kind = job.device
        self.directory = Path(job.directory)
        self.limit_s = job.limit_s
        self._begun = time.monotonic()
        self._failures = 0
        self._findings = job.path("jsonl").open("a")

    @functools.cached_property
    def device(self) -> Device:
        """Device 0, unless the part has put another one here."""
        return Device(self.kind)

    @property
    def left_s(self) -> float:
        """Until the process is ended."""
        return self._begun + self.limit_s - time.monotonic()

    def join(self, backend: str = "rocecoll", name: str = "store", **more: Any) -> None:
        dist.init_process_group(
            backend,
            init_method=f"file://{self.directory}/{name}",
            rank=self.number,
            world_size=self.size,
            timeout=timedelta(seconds=max(10.0, min(60.0, self.left_s - 10))),
            **more,
        )

    def tell(self, name: str, value: Any) -> None:
        """For the report; of rank 0 it is shown."""
        self._write({"told": name, "value": value})

    def fail(self, *words: object) -> None:
        self._failures += 1
        if self._failures <= MOST_FAILURES:
            self._write({"failed": " ".join(map(str, words))})

    def expect(self, good: bool, *words: object) -> bool:
        if not good:
            self.fail(*words)
        return good

    def same(self, actual: torch.Tensor, expected: torch.Tensor, *what: object) -> bool:
        """In shape, dtype and bytes."""
        actual, expected = actual.cpu(), expected.cpu()
        if (actual.dtype, actual.shape) != (expected.dtype, expected.shape):
            return self.expect(False, *what, actual.dtype, tuple(actual.shape), "not as expected")
        wrong = (as_bytes(actual) != as_bytes(expected)).nonzero().flatten()
        if len(wrong) == 0:
            return True
        of = f"{len(wrong)} of {actual.nbytes} bytes differ, from {wrong[0]} to {wrong[-1]}"
        return self.expect(False, *what, of)

    def finish(self) -> int:
        """The exit status."""
        for violation in self.device.take_violations():
            self.fail("memory was used after it had been freed:", violation)
        self._write({"ended": True})
        return 1 if self._failures else 0

    def cannot_run(self, reason: str) -> None:
        self._write({"cannot": reason})

    def _write(self, finding: dict[str, Any]) -> None:
        line = {"rank": self.number, "at_s": round(time.monotonic() - self._begun, 3), **finding}
        self._findings.write(json.dumps(line) + "\n")
        self._findings.flush()


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    plain = torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.detach().reshape(-1))
    return plain.view(torch.uint8)


def load(program: str) -> Any:
    """The file as a module; a name without a folder is a file beside this one."""
    path = Path(__file__).parent / program
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(job: Job) -> None:
    """In a process forked from one that has torch, and no CUDA yet."""
    log = os.open(job.path("log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.enable()
    # Also where whoever has started it is gone.
    faulthandler.dump_traceback_later(job.limit_s, exit=True)
    os.environ.update(job.variables)
    torch.set_num_threads(THREADS)
    rank = Rank(job)
    status = 1
    try:
        load(job.program).run(rank)
        status = rank.finish()
    except CannotRunError as reason:
        rank.cannot_run(str(reason))
    except BaseException as error:
        rank.fail(f"{type(error).__name__}: {error}")
        print(traceback.format_exc()[-TRACE_TAIL:], file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of a part that has failed may wait for ever.
    os._exit(status)
