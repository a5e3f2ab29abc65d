# SPDX-License-Identifier: Apache-2.0
"""What this process is doing, for other processes of the same user that ask (`rocecoll status`).

Each process with a runtime listens on an abstract Unix socket, which leaves nothing behind in the
file system however the process ends. A client that runs as the same user or as root gets one JSON
object; nothing is read from it.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import struct
import sys
import threading
import time
from typing import Any

from rocecoll import notes

SOCKET_PREFIX = "rocecoll-status-"  # then the process id, and random digits that cannot be guessed
SEND_TIMEOUT_S = 1.0  # how long a client that does not read can hold up the next one
RETRY_S = 1.0
JOIN_S = 2.0

_server: _Server | None = None


def snapshot() -> dict[str, Any]:
    """All that is told: times in seconds, `waits_for` and `global_rank` as torch counts ranks."""
    from rocecoll import __version__, _core
    from rocecoll.rendezvous import forming

    return {
        "version": __version__,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "program": os.path.basename(sys.argv[0]),
        "time": time.time(),
        "groups": _core.process_groups(),
        "forming": forming.snapshot(),
        "peers": _core.process_peer_stats(),
        "stats": _core.process_stats(),
    }


def peer_user(connection: socket.socket) -> int:
    """The user id of the process at the other end, as of when it connected or listened."""
    size = struct.calcsize("3i")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(struct.unpack("3i", credentials)[1])


class _Server:
    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(f"\0{SOCKET_PREFIX}{os.getpid()}-{secrets.token_hex(4)}")
        self._socket.listen(8)
        self._ending = threading.Event()
        # A daemon: other threads are joined before the functions of atexit run, and stop() is one.
        self._thread = threading.Thread(target=self._serve, name="rocecoll_status", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._ending.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:  # shut down by stop(), or this process has no descriptor left
                self._ending.wait(RETRY_S)
                continue
            with connection:
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        if peer_user(connection) not in (os.geteuid(), 0):
            return
        connection.settimeout(SEND_TIMEOUT_S)
        try:
            connection.sendall(json.dumps(snapshot()).encode())
        except OSError as error:  # it did not wait for the answer
            notes.logger.debug("an asker for the status is gone: %s", error)

    def stop(self) -> None:
        self._ending.set()
        self._socket.shutdown(socket.SHUT_RDWR)  # which ends accept()
        self._thread.join(JOIN_S)
        self._socket.close()

    def forget(self) -> None:
        self._socket.close()


def start() -> None:
    """Answers from now on until stop(). Idempotent."""
    global _server
    if _server is not None:
        return
    try:
        _server = _Server()
    except OSError as error:
        notes.log(logging.INFO, f"`rocecoll status` will not see process {os.getpid()}: {error}")


def stop() -> None:
    """Ends the thread: no thread may be in C++ when Python ends."""
    global _server
    if _server is not None:
        _server.stop()
        _server = None


def forget() -> None:
    """For a forked child, which does not have the thread. The parent's goes on."""
    global _server
    if _server is not None:
        _server.forget()
        _server = None
