# SPDX-License-Identifier: Apache-2.0
"""What this package says to people: errors, and notes on logging.getLogger("rocecoll").

All of it begins with the package's name, which is put there here.
"""

from __future__ import annotations

import logging

_NAMED = "rocecoll: %s"

logger = logging.getLogger("rocecoll")


def named(text: str) -> str:
    """The text of an error or of a line for a terminal."""
    return _NAMED % text


def log(level: int, text: str) -> None:
    """Tells `text`, which does not begin with the name."""
    logger.log(level, _NAMED, text, stacklevel=2)


def text_of(record: logging.LogRecord) -> str:
    """What a record of the logger tells, without the name if log() made it."""
    if record.msg == _NAMED and isinstance(record.args, tuple):
        return str(record.args[0])
    return record.getMessage()
