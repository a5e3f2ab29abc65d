# SPDX-License-Identifier: Apache-2.0
"""ROCECOLL_DEBUG: lines of logging.getLogger("rocecoll") appear whether or not logging is set up.

A program that has handlers, on that logger or the root, gets the lines through them, whenever it adds
them. Otherwise they go to stderr, each with its host, process and rank. Without the option only
warnings appear, even if the root logger is set to INFO (Ray Train does so in its workers for its own
lines), unless the program has set a level for this logger.
"""

from __future__ import annotations

import logging
import socket
import sys

from rocecoll.notes import logger, text_of

LEVELS = {"info": logging.INFO, "warn": logging.WARNING, "off": logging.CRITICAL + 1}
_NAMES = {logging.WARNING: "WARN"}


class _Stderr(logging.Handler):
    """`rank` is that of this process in the world, once it has one."""

    rank: int | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if _program_listens():
            return
        try:
            # One write, so that lines of several processes do not mix.
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)

    def format(self, record: logging.LogRecord) -> str:
        place = f"{socket.gethostname()}:{record.process}"
        rank = "" if self.rank is None else f" [{self.rank}]"
        level = _NAMES.get(record.levelno, record.levelname)
        return f"{place}{rank} ROCECOLL {level} {text_of(record)}"


def _wanted(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING or logger.level != logging.NOTSET


logger.addFilter(_wanted)
_handler = _Stderr()


def _program_listens() -> bool:
    others = any(handler is not _handler for handler in logger.handlers)
    return others or (logger.propagate and bool(logging.root.handlers))


def configure(level: str | None, rank: int) -> None:
    """Shows what ROCECOLL_DEBUG asks for; None: warnings only, which Python's logging prints.

    A level that the program has set stays.
    """
    _handler.rank = rank
    if level is None:
        return
    if logger.level == logging.NOTSET:
        logger.setLevel(LEVELS[level])
    if _handler not in logger.handlers:
        logger.addHandler(_handler)
