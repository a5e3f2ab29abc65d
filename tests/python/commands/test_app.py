# SPDX-License-Identifier: Apache-2.0
"""The program `rocecoll` as a whole: its list of commands, and what it loads to begin."""

from __future__ import annotations

import ast
import sys

import pytest
from launch import environment, run_programs
from typer.testing import CliRunner

from rocecoll.cli.app import COMMANDS, app

# Take long to load, and nothing that looks at a machine needs them; ssl and http come along with
# urllib.request.
HEAVY = {"torch", "numpy", "matplotlib", "asyncio", "ssl", "http.client", "unittest"}
OF_RICH = {"rich.live", "rich.progress", "rich.markdown", "rich.syntax", "rich.traceback"}
PROGRAM = """
import sys
from rocecoll.cli.app import main
try:
    main()
finally:
    print("loaded", sorted(sys.modules))
"""


def loaded_by(*arguments: str) -> set[str]:
    """The modules that are loaded once the command has done its work."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    [shown] = run_programs([command], [environment()], fresh=True)
    assert shown.returncode in (0, 1), shown.stdout
    return set(ast.literal_eval(shown.stdout.rpartition("loaded ")[2]))


@pytest.mark.quick
def test_the_list_says_of_each_command_what_its_own_help_begins_with() -> None:
    listed = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output
    for name, command in COMMANDS.items():
        shown = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"}).output
        assert f"\n\n  {command.summary}" in shown
        assert f"  {name.ljust(max(map(len, COMMANDS)))}  {command.summary}\n" in listed


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_has_an_example(command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert "Example: " in result.output
    assert max(map(len, result.output.splitlines())) <= 80


@pytest.mark.parametrize(
    "arguments",
    [
        ["doctor"],
        ["devices"],
        ["config"],
        ["status"],
        ["explain", "rocecoll: nothing of the kind"],
        *([name, "--help"] for name in COMMANDS),
    ],
    ids=" ".join,
)
def test_nothing_heavy_is_loaded(arguments: list[str]) -> None:
    modules = loaded_by(*arguments)
    assert not modules & HEAVY
    assert arguments[0] == "bench" or not modules & OF_RICH
    assert {n for n, one in COMMANDS.items() if one.module in modules} == {arguments[0]}


def test_the_list_of_commands_loads_none_of_them() -> None:
    for argument in ("--help", "--version"):
        modules = loaded_by(argument)
        assert not modules & (HEAVY | OF_RICH | {"rich.table", "psutil"})
        assert {name for name in modules if name.startswith("rocecoll.cli.")} == {
            "rocecoll.cli.app",
            "rocecoll.cli.output",
        }
