# SPDX-License-Identifier: Apache-2.0
"""Writes what repeats the table of options in csrc/runtime/option_table.cc; needs a build.

That is README.md's table and the parameters of rocecoll.Options in the stub.
"""

from __future__ import annotations

from pathlib import Path

from rocecoll._core import Option
from rocecoll.options import table, value_text, variable

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
STUB = ROOT / "rocecoll" / "_c10d.pyi"


def default_text(option: Option) -> str:
    """The default as the variable would have it, with its unit; empty if the default is empty."""
    text = value_text(option.default)
    if not text or option.default is None:
        return text and f"`{text}`"
    unit = "" if option.name.endswith(f"_{option.unit}") else f" {option.unit}"
    return f"`{text}`{unit}".rstrip()


def readme_rows() -> list[str]:
    rows = []
    for option in table().values():
        default = f" {text}" if (text := default_text(option)) else ""
        aliases = " or ".join(f"`{alias.variable}`" for alias in option.aliases)
        doc = f"{option.doc}; falls back to {aliases}" if aliases else option.doc
        rows.append(f"| `{variable(option.name)}` |{default} | {doc} |")
    return rows


def parameter(option: Option) -> str:
    """The option's parameter in the stub. Any option accepts text, and text options accept paths."""
    kind, auto, _ = option.type.partition(" | None")
    text = "str | os.PathLike[str]" if kind == "str" else f"{kind} | str"
    return f"        {option.name}: {text}{auto} = ...,"


def stub_parameters() -> list[str]:
    return [parameter(option) for option in table().values() if not option.process_wide]


def replace_lines(text: str, before: str, after: str, new: list[str]) -> str:
    """`text` with `new` between the line `before` and the first line `after` that follows it."""
    lines = text.split("\n")
    first = lines.index(before) + 1
    last = lines.index(after, first)
    return "\n".join(lines[:first] + new + lines[last:])


def readme() -> str:
    return replace_lines(README.read_text(), "| --- | --- | --- |", "", readme_rows())


def stub() -> str:
    return replace_lines(
        STUB.read_text(), "        *,  # options", "    ) -> None: ...", stub_parameters()
    )


if __name__ == "__main__":
    README.write_text(readme())
    STUB.write_text(stub())
