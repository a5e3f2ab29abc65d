# SPDX-License-Identifier: Apache-2.0
"""Every option's value in this process, where the value comes from, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rocecoll import options


@dataclass(frozen=True)
class OptionValue:
    """`origin` is the variable that it comes from, or None for the default."""

    name: str
    variable: str
    value: Any
    default: Any
    unit: str
    origin: str | None
    accepted: str
    doc: str


@dataclass(frozen=True)
class Configuration:
    """`problems` are bad values; `unknown` has the nearest name of each unknown variable, or none."""

    options: list[OptionValue]
    problems: list[str]
    unknown: dict[str, str]


def read_configuration() -> Configuration:
    problems: list[str] = []
    given = options.given(problems)
    rows = []
    for name, option in options.table().items():
        said = given.get(name)
        rows.append(
            OptionValue(
                name=name,
                variable=options.variable(name),
                value=said.value if said else option.default,
                default=option.default,
                unit=option.unit,
                origin=said.origin if said else None,
                accepted=option.accepted,
                doc=option.doc,
            )
        )
    return Configuration(rows, problems, options.unknown_variables())


def usable_settings() -> options.Settings:
    """The settings, with defaults in place of bad values; read_configuration() reports those."""
    given = options.given(problems=[])
    return options.complete({name: said.value for name, said in given.items()})
