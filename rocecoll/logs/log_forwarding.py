# SPDX-License-Identifier: Apache-2.0
"""What the core has to say besides errors goes to logging.getLogger("rocecoll").

Warnings show on stderr without any set-up, which is what Python's logging does with them; notes at
INFO level need a level for that logger, or ROCECOLL_DEBUG (debug_output.py).
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

        # A daemon, as others are joined before functions of atexit run; stop() is one of those.
        _thread = threading.Thread(target=_forward, args=(_core,), name="rocecoll_log", daemon=True)
        _thread.start()


def stop() -> None:
    """Forwards what waits and ends the thread for good: none may be in C++ at interpreter end."""
    if _thread is not None:
        from rocecoll import _core

        _ending.set()
        _core.stop_log_waits()
        _thread.join(JOIN_S)


def forget() -> None:
    """In a forked child, into which the thread did not come along."""
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
