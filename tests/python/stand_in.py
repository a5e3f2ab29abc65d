# SPDX-License-Identifier: Apache-2.0
"""Stands for a Python program that program_server.py forks: hands on signals, and ends as it does.

    python -I -S stand_in.py SOCKET ARGUMENTS_OF_PYTHON...

Its output is the program's own, which has the same streams. What the server cannot run becomes a program
of an interpreter of its own.
"""

from __future__ import annotations

import marshal
import os
import signal
import socket
import sys

STREAMS = (0, 1, 2)
NAMESPACES = ("/proc/self/ns/net", "/proc/self/ns/mnt")
NUMBER_BYTES = 4
MODULES = ("rocecoll", "rocecoll.bench", "torch.distributed.run")  # others mostly need no torch
HANDED_ON = (
    signal.SIGABRT,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


def can_be_forked(arguments: list[str]) -> bool:
    match arguments:
        case ["-m", module, *_]:
            return module in MODULES
        case [first, *_]:
            return first == "-c" or not first.startswith("-")
    return False


def run(server: str, arguments: list[str]) -> int | None:
    """The program's exit status; None if it has to be run by an interpreter of its own."""
    if arguments[:1] == ["-u"]:  # as torchrun asks for; everything that tests start is unbuffered
        arguments = arguments[1:]
    if not can_be_forked(arguments):
        return None
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(server)
        request = marshal.dumps((os.getpid(), arguments, dict(os.environ), os.getcwd()))
        namespaces = [os.open(path, os.O_RDONLY) for path in NAMESPACES]
        length = len(request).to_bytes(NUMBER_BYTES, "little")
        socket.send_fds(connection, [length], [*STREAMS, *namespaces])
        connection.sendall(request)
        program = int.from_bytes(connection.recv(NUMBER_BYTES), "little")
        if program == 0:
            return None
        for number in HANDED_ON:
            signal.signal(number, lambda number, _: os.kill(program, number))
        return int.from_bytes(connection.recv(NUMBER_BYTES), "little", signed=True)


def main(server: str, *arguments: str) -> int:
    status = run(server, list(arguments))
    if status is None:
        os.execv(sys.executable, [sys.executable, *arguments])
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
