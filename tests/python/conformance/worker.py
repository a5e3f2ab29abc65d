# SPDX-License-Identifier: Apache-2.0
"""Runs upstream's tests by name, one at a time, each in fresh rank processes.

    python worker.py DESCRIPTOR

The descriptor is a connection: it sends the names of all tests, then answers each name with
(status, reason) until it is closed.
"""

from __future__ import annotations

import sys
import unittest
from multiprocessing.connection import Connection

from conformance.exam import Exam


def run(name: str) -> tuple[str, str]:
    result = unittest.TestResult()
    try:
        unittest.TestSuite([Exam(name)]).run(result)
    except Exception as error:  # a broken set-up of the class must not end the run
        return "FAIL", f"{type(error).__name__}: {error}"
    failures = [trace for _, trace in result.errors + result.failures]
    failures += [f"{test}: unexpected success" for test in result.unexpectedSuccesses]
    if failures:
        return "FAIL", "\n".join(failures)
    if result.skipped:
        return "SKIP", result.skipped[0][1]
    return ("PASS", "") if result.testsRun == 1 else ("FAIL", "the test did not run")


def main(descriptor: int) -> None:
    connection = Connection(descriptor)
    connection.send(unittest.TestLoader().getTestCaseNames(Exam))
    while True:
        try:
            name = connection.recv()
        except EOFError:
            return
        print(f"======== {name}", flush=True)
        status, reason = run(name)
        print(f"-------- {name}: {status} {reason}", flush=True)
        connection.send((status, reason))


if __name__ == "__main__":
    main(int(sys.argv[1]))
