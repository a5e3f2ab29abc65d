# SPDX-License-Identifier: Apache-2.0
"""Forks Python programs from a process that has torch, whose import takes an interpreter seconds.

    python program_server.py LISTENING_SOCKET DIRECTORY

Each request comes from a stand_in.py. The program has that one's arguments, variables, directory,
namespaces and streams, and runs and ends as in its own interpreter, with uncaught exceptions,
threads and atexit. DIRECTORY has its process id, in a file named after that of its stand-in. The
server ends with its standard input, and everything that it has forked ends then, too.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import marshal
import os
import runpy
import selectors
import signal
import socket
import sys
import weakref
from pathlib import Path
from types import ModuleType

import torch
from stand_in import NAMESPACES, NUMBER_BYTES, STREAMS

PRELOADED = (
    "numpy",
    "torch",
    "torch._dynamo",  # by the first optimizer
    "torch.distributed.elastic.agent.server.local_elastic_agent",  # by torchrun
    "torch.distributed.elastic.rendezvous.registry",
    "torch.distributed.fsdp",
    "torch.distributed.launcher.api",
)
# Variables that are read when an interpreter starts or torch is imported. A program in which they
# differ needs its own interpreter. Those that torchrun sets, or that are read later, are not among
# them.
READ_EARLY = ("PYTHON", "LD_", "OMP_", "KMP_", "MKL_", "TORCH_")
READ_LATE = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_DISTRIBUTED_DEBUG")
REQUEST_LIMIT_S = 60


def read_early(variables: dict[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in variables.items()
        if name.startswith(READ_EARLY) and name not in READ_LATE
    }


class Server:
    def __init__(self, listener: socket.socket, directory: Path) -> None:
        self._listener = listener
        self._directory = directory
        self._selector = selectors.PollSelector()  # which has no descriptor that children inherit
        self._asking: dict[int, socket.socket] = {}  # by the child that was asked for

    def serve(self) -> list[str] | None:
        """In a child the arguments of its program; None in the server, at its end."""
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        self._selector.register(self._listener, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fd == sys.stdin.fileno():
                    for child in self._asking:
                        os.kill(child, signal.SIGKILL)
                    return None
                if key.fileobj is self._listener:
                    if (arguments := self._start()) is not None:
                        return arguments
                elif isinstance(key.fileobj, socket.socket):
                    self._end_without_stand_in(key.data)
                else:
                    self._tell_the_end(key.fd, key.data)

    def _start(self) -> list[str] | None:
        connection, _ = self._listener.accept()
        connection.settimeout(REQUEST_LIMIT_S)
        begin, given, _, _ = socket.recv_fds(
            connection, NUMBER_BYTES, len(STREAMS) + len(NAMESPACES)
        )
        with connection.makefile("rb") as rest:
            request = rest.read(int.from_bytes(begin, "little"))
        own, arguments, variables, directory = marshal.loads(request)
        child = 0
        if may_fork := read_early(variables) == read_early(dict(os.environ)):
            if (child := os.fork()) == 0:
                connection.close()
                self._close()
                become(given, variables, directory)
                return list(arguments)
            (self._directory / str(own)).write_text(str(child))
        for descriptor in given:
            os.close(descriptor)
        with contextlib.suppress(OSError):  # the stand-in has been killed
            connection.sendall(child.to_bytes(NUMBER_BYTES, "little"))
        if may_fork:
            self._asking[child] = connection
            self._selector.register(os.pidfd_open(child), selectors.EVENT_READ, child)
            self._selector.register(connection, selectors.EVENT_READ, child)
        else:
            connection.close()
        return None

    def _end_without_stand_in(self, child: int) -> None:
        if child in self._asking:  # else it has just been told
            self._selector.unregister(self._asking[child])
            os.kill(child, signal.SIGKILL)

    def _tell_the_end(self, ended: int, child: int) -> None:
        self._selector.unregister(ended)
        os.close(ended)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with self._asking.pop(child) as connection:
            with contextlib.suppress(KeyError):
                self._selector.unregister(connection)
            with contextlib.suppress(OSError):
                connection.sendall(status.to_bytes(NUMBER_BYTES, "little", signed=True))

    def _close(self) -> None:
        """In a child, which has all but the standard streams only from being forked."""
        for key in self._selector.get_map().values():
            if key.fd != sys.stdin.fileno():
                os.close(key.fd) if isinstance(key.fileobj, int) else key.fileobj.close()
        self._selector.close()


def become(given: list[int], variables: dict[str, str], directory: str) -> None:
    """Gives this process what a program inherits from the process that starts it."""
    for path, namespace in zip(NAMESPACES, given[len(STREAMS) :], strict=True):
        if os.fstat(namespace).st_ino != os.stat(path).st_ino:
            enter_namespace(namespace, path)
    for number, stream in zip(STREAMS, given, strict=False):
        os.dup2(stream, number)
    for descriptor in given:
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(variables)
    torch.distributed.set_debug_level_from_env()  # as at its import
    os.chdir(directory)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def enter_namespace(descriptor: int, name: str) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0) != 0:
        raise OSError(ctypes.get_errno(), f"setns to {name}")


def run(arguments: list[str]) -> None:
    """Like `python ARGUMENTS`, which are those of a script, of -c or of -m."""
    program = sys.modules["__main__"] = ModuleType("__main__")
    vars(program)["__builtins__"] = sys.modules["builtins"]
    first, *rest = arguments
    if first == "-m":
        sys.argv, sys.path[0] = ["-m", *rest[1:]], os.getcwd()
        runpy._run_module_as_main(rest[0])  # type: ignore[attr-defined]  as the interpreter does
    elif first == "-c":
        sys.argv, sys.path[0] = ["-c", *rest[1:]], ""
        exec(compile(rest[0], "<string>", "exec"), vars(program))
    else:
        sys.argv, sys.path[0] = arguments, os.path.dirname(os.path.realpath(first))
        program.__file__ = os.path.abspath(first)
        source = Path(first).read_bytes()
        exec(compile(source, program.__file__, "exec"), vars(program))


def leave_loaded() -> None:
    """Has programs end without taking apart what is loaded so far, which would take most of their time.

    What they load themselves goes as ever, after their last callbacks, and torch.distributed with the
    groups that are left.
    """
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        finalizer.atexit = False
    atexit.register(_leave, sys.modules.copy())
    libc = ctypes.CDLL(None)
    for function in (libc._exit, libc.fcloseall):  # what is registered last comes first
        libc.on_exit(function, None)
    gc.collect()
    gc.freeze()  # out of the last garbage collection


def _leave(modules: dict[str, ModuleType]) -> None:
    for name in modules.keys() - sys.builtin_module_names - {"__main__"}:
        if not name.startswith("torch.distributed"):
            sys.modules.pop(name, None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(modules))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a whole process group; programs see to theirs
    for name in PRELOADED:
        importlib.import_module(name)
    leave_loaded()
    listener = socket.socket(fileno=int(sys.argv[1]))
    arguments = Server(listener, Path(sys.argv[2])).serve()
    if arguments is None:
        return
    try:
        run(arguments)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        frames = error.__traceback__
        for _ in range(2):  # without ours
            frames = frames.tb_next if frames else None
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, frames
        sys.excepthook(type(error), error.with_traceback(frames), frames)
        sys.exit(1)


if __name__ == "__main__":
    main()
