# SPDX-License-Identifier: Apache-2.0
"""Which beds there are, and which one `auto` means."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from softroce_bed.bed import Bed, ImpossibleError
from softroce_bed.native import Native
from softroce_bed.qemu import Qemu
from softroce_bed.uml import Uml


class Name(str, Enum):
    auto = "auto"
    native = "native"
    uml = "uml"
    qemu = "qemu"


def all_beds() -> list[Bed]:
    """In the order of preference."""
    return [Native(), Uml(), Qemu()]


def prepared(name: Name, beds: Sequence[Bed] | None = None) -> Bed:
    """The named bed, ready; for `auto` the first that is, otherwise the first that can be made so."""
    beds = all_beds() if beds is None else beds
    asked = [bed for bed in beds if name.value in ("auto", bed.name)]
    obstacles = {bed.name: bed.obstacle() for bed in asked}
    possible = [bed for bed in asked if not obstacles[bed.name]]
    for bed in possible:
        if bed.is_ready():
            return bed
    for bed in possible:
        try:
            bed.setup()
            return bed
        except ImpossibleError as error:
            obstacles[bed.name] = str(error)
    reasons = [f"{name}: {reason}" for name, reason in obstacles.items()]
    raise ImpossibleError("\n".join(["no bed for Soft-RoCE is possible here:", *reasons]))
