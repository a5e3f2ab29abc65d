# SPDX-License-Identifier: Apache-2.0
"""What a process tells of itself on logging.getLogger("rocecoll"), each thing once."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable

from rocecoll import options


@functools.cache
def _say_once(level: int, text: str) -> None:
    logging.getLogger("rocecoll").log(level, "rocecoll: %s", text)


def tell_aliases(chosen: Iterable[str]) -> None:
    """Which variables of other libraries are used; `chosen` are the options of a rocecoll.Options."""
    for note in options.alias_notes(chosen):
        _say_once(logging.INFO if note.used else logging.WARNING, note.text)
