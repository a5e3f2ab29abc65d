# SPDX-License-Identifier: Apache-2.0
"""rocecoll config: every option, its value here and where that comes from."""

from __future__ import annotations

from dataclasses import asdict

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from rocecoll.cli import output
from rocecoll.diagnosis.machine.option_values import Configuration, OptionValue, read_configuration
from rocecoll.options import suggestion, value_text


def config(json: output.Json = False) -> None:
    """Lists every option, its value here and its origin.

    And its default and its meaning, in the environment that the command runs in.

    Bad values, of which a job would refuse the first, are all listed; then the exit status is 1.

    Example: ROCECOLL_TRANSPORT=rc rocecoll config
    """
    found = read_configuration()
    if json:
        output.print_json(asdict(found))
    else:
        show(found, output.console())
    output.exit_with(bool(found.problems))


def show(found: Configuration, console: Console) -> None:
    for option in found.options:
        console.print(headline(option))
        console.print(Padding(option.doc, (0, 0, 0, 4), expand=False))
    for name, nearest in found.unknown.items():
        console.print(Text(f"unknown: {name}{suggestion(nearest)}", "yellow"))
    for problem in found.problems:
        console.print(Text(f"problem: {problem}", "red"))


def headline(option: OptionValue) -> Text:
    """`NAME = value` and its origin, highlighted if it is not the default."""
    value = with_unit(option, option.value) or '""'
    line = Text(option.variable, "bold").append(f" = {value}", "not bold")
    if option.origin is None:
        return line.append("  (default)", "not bold dim")
    source = "set" if option.origin == option.variable else f"from {option.origin}"
    default = with_unit(option, option.default) or '""'
    return line.append(f"  ({source}; default {default})", "not bold green")


def with_unit(option: OptionValue, value: object) -> str:
    text = value_text(value)
    named = option.name.endswith(f"_{option.unit}") or text in ("", "auto")
    return text if named else f"{text} {option.unit}".rstrip()
