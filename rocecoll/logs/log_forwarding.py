# SPDX-License-Identifier: Apache-2.0
"""Warnings and notes of the core go to logging.getLogger("rocecoll").

Warnings appear on stderr without any set-up, which is the default of Python's logging; notes at INFO
level need a level for that logger, or ROCECOLL_DEBUG (debug_output.py).
"""

from __future__ import annotations

import logging
import threading
from types import ModuleType

from rocecoll import notes

LEVELS = {"info": logging.INFO, "warning": logging.WARNING}
WAIT_S = 3600.0
JOIN_S = 5.0  # a handler of the program may hang

_thread: threading.Thread | None = None
_ending = threading.Event()


def start() -> None:
    """Forwards from now on until stop(). Idempotent."""
    global _thread
    if _thread is None:
        from rocecoll import _core

        # A daemon: other threads are joined before the functions of atexit run, and stop() is one.
        _thread = threading.Thread(target=_forward, args=(_core,), name="rocecoll_log", daemon=True)
        _thread.start()


def stop() -> None:
    """Forwards what is queued, then ends the thread: no thread may be in C++ when Python ends."""
    if _thread is not None:
        from rocecoll import _core

        _ending.set()
        _core.stop_log_waits()
        _thread.join(JOIN_S)


def forget() -> None:
    """For a forked child, which does not have the thread."""
    global _thread
    _thread = None


def _forward(core: ModuleType) -> None:
    while True:
        entry = core.take_log_entry(WAIT_S)
        if entry is None:
            if _ending.is_set():
                return
            continue
        severity, text = entry
        notes.log(LEVELS[severity], text)
