# SPDX-License-Identifier: Apache-2.0
"""torch.testing._internal.distributed.distributed_test for a backend that it does not know.

Nothing of it is edited. Its decorators compare the backend's name with "gloo", "nccl" and "mpi"
while the module is imported, so it is imported as if the backend were the one that CONFORMANCE_GATE
names; what it looks up while a test runs is what CONFORMANCE_BACKEND says.

Imported three times: by the worker, by the fork server (which has torch loaded before it forks a
rank), and so by every rank.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any
from unittest import mock

BACKEND = os.environ["CONFORMANCE_BACKEND"]
GATE = os.environ["CONFORMANCE_GATE"]
LIMIT_S = int(os.environ["CONFORMANCE_LIMIT_S"])

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__])


def import_suite() -> Any:
    with mock.patch.dict(os.environ, BACKEND=GATE):
        suite: Any = importlib.import_module("torch.testing._internal.distributed.distributed_test")
    os.environ["BACKEND"] = suite.BACKEND = BACKEND
    # Where these name a backend, the test asks for a profiler event "<backend>:<operation>".
    for known in (
        suite.PROFILING_SUPPORTED_BACKENDS,
        suite.CUDA_PROFILING_SUPPORTED_BACKENDS,
        suite.SEND_RECV_PROFILING_SUPPORTED_BACKENDS,
    ):
        if BACKEND not in known:
            known.append(BACKEND)
    common: Any = importlib.import_module("torch.testing._internal.common_distributed")
    common.TIMEOUT_OVERRIDE.clear()
    common.TIMEOUT_DEFAULT = LIMIT_S
    return suite


if BACKEND == "rocecoll":
    importlib.import_module("rocecoll")
suite = import_suite()


def run_rank(environment: dict[str, str], case: type[Exam], *args: Any, **details: Any) -> None:
    """A rank gets the worker's environment of now; the fork server has that of its start."""
    os.environ.clear()
    os.environ.update(environment)
    suite.INIT_METHOD = os.environ["INIT_METHOD"]
    case._run(*args, **details)


def make_process(
    target: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> BaseProcess:
    # `target` is always the bound Exam._run, which would not find its class unimported.
    return _context.Process(
        target=run_rank, name=name, args=(dict(os.environ), Exam, *args), kwargs=kwargs
    )


class Exam(suite.TestDistBackend, suite.DistributedTest._DistTestBase):  # type: ignore[misc,name-defined]
    """Upstream's tests, their ranks forked from a server instead of spawned: 0.5 s, not 10."""

    def setUp(self) -> None:
        super().setUp()
        self._start_processes(make_process)

    def run_test(self, test_name: str, parent_pipe: Connection) -> None:
        # The only tests that compare the name while they run: none of their branches fits another
        # backend.
        if test_name.startswith("test_accumulate_gradients_"):
            suite.BACKEND = GATE
        super().run_test(test_name, parent_pipe)
