# SPDX-License-Identifier: Apache-2.0
"""ROCECOLL_DEBUG: what logging.getLogger("rocecoll") is told shows, whether or not logging is set up.

A program that has handlers, there or at the root, gets the lines through those, whenever it adds
them. Else they go to stderr, each with its host, process and rank. Without the option only warnings
show, also where the root logger is set to INFO (as Ray Train does in its workers for its own sake),
unless the program has set a level for this logger.
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
    """As ROCECOLL_DEBUG says; with None logging prints warnings. A level that the program set stays."""
    _handler.rank = rank
    if level is None:
        return
    if logger.level == logging.NOTSET:
        logger.setLevel(LEVELS[level])
    if _handler not in logger.handlers:
        logger.addHandler(_handler)
