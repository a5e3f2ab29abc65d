# SPDX-License-Identifier: Apache-2.0
"""How the ranks of a group find each other through the Store, and agree that they fit together."""

from __future__ import annotations

from rocecoll.notes import named


class RendezvousError(RuntimeError):
    """The ranks could not find each other, or do not fit together."""

    def __str__(self) -> str:
        return named(super().__str__())
