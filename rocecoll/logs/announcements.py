# SPDX-License-Identifier: Apache-2.0
"""What a process logs about itself on logging.getLogger("rocecoll"), each thing once.

A forked child counts as another process.
"""

from __future__ import annotations

import functools
import logging
import os
import platform
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch

import rocecoll
from rocecoll import notes, options

if TYPE_CHECKING:
    from rocecoll.host.interfaces import Choice


@functools.cache
def _say_once(level: int, text: str) -> None:
    notes.log(level, text)


os.register_at_fork(after_in_child=_say_once.cache_clear)


def tell_aliases(chosen: Iterable[str]) -> None:
    """Logs which variables of other libraries are used; `chosen` are those of a rocecoll.Options."""
    for note in options.alias_notes(chosen):
        _say_once(logging.INFO if note.used else logging.WARNING, note.text)


def tell_process(choice: Choice, carriers: str) -> None:
    """Logs this process's versions, transport and address."""
    _say_once(
        logging.INFO,
        f"version {rocecoll.__version__}, torch {torch.__version__}, Python "
        f"{platform.python_version()}, Linux {platform.release()}",
    )
    mtu = "" if choice.mtu_bytes is None else f", MTU {choice.mtu_bytes}"
    _say_once(
        logging.INFO,
        f"transport {carriers}; address {choice.address} of {choice.interface.name}{mtu}: "
        f"{choice.reason}",
    )
