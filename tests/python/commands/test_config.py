# SPDX-License-Identifier: Apache-2.0
"""rocecoll config: what it says of options, and how it ends."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest
from launch import environment, run_programs
from typer.testing import CliRunner, Result

from rocecoll.cli.app import app
from rocecoll.diagnosis.machine.option_values import read_configuration
from rocecoll.options import PREFIX, table, variable

pytestmark = pytest.mark.quick


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(PREFIX):
            monkeypatch.delenv(name)


def run(*arguments: str, **variables: str) -> Result:
    return CliRunner().invoke(app, ["config", *arguments], env=variables)


def by_name(result: Result) -> dict[str, dict[str, Any]]:
    return {option["name"]: option for option in json.loads(result.stdout)["options"]}


def test_every_option_has_its_default_and_its_meaning() -> None:
    result = run()
    assert result.exit_code == 0, result.output
    assert (
        "ROCECOLL_TRANSPORT = auto  (default)\n    what carries data between hosts: udp,"
        in result.output
    )
    assert 'ROCECOLL_SOCKET_IFNAME = ""  (default)' in result.output
    assert "ROCECOLL_IB_MTU = 4096 bytes  (default)" in result.output
    for name in table():
        assert f"{variable(name)} = " in result.output


def test_a_value_tells_where_it_is_from() -> None:
    result = run(ROCECOLL_PORT_RANGE="50000-50100", ROCECOLL_SHM="off")
    assert 'ROCECOLL_PORT_RANGE = 50000-50100  (set; default "")' in result.output
    assert "ROCECOLL_SHM = 0  (set; default auto)" in result.output
    options = by_name(run("--json", ROCECOLL_PORT_RANGE="50000-50100"))
    assert options["port_range"]["value"] == [50000, 50100]
    assert options["port_range"]["origin"] == "ROCECOLL_PORT_RANGE"
    assert options["shm"]["origin"] is None
    assert options["peer_timeout"]["unit"] == "s"


def test_all_bad_values_are_told_not_only_the_first() -> None:
    bad = {"ROCECOLL_LANE_BYTES": "many", "ROCECOLL_TRANSPORT": "tcp"}
    result = run(**bad)
    assert result.exit_code == 1
    assert "problem: ROCECOLL_LANE_BYTES='many': accepted is a whole number" in result.output
    assert "problem: ROCECOLL_TRANSPORT='tcp': accepted is" in result.output
    assert len(json.loads(run("--json", **bad).stdout)["problems"]) == 2
    assert read_configuration().problems == []


def test_an_unknown_variable_is_shown_with_the_nearest_name() -> None:
    result = run(ROCECOLL_SOKET_IFNAME="eth0")
    assert result.exit_code == 0
    assert "unknown: ROCECOLL_SOKET_IFNAME; did you mean ROCECOLL_SOCKET_IFNAME?" in result.output
    far = "ROCECOLL_" + 40 * "Q"
    unknown = json.loads(run("--json", ROCECOLL_SOKET_IFNAME="", **{far: "1"}).stdout)["unknown"]
    assert unknown == {far: "", "ROCECOLL_SOKET_IFNAME": "ROCECOLL_SOCKET_IFNAME"}


def test_it_fits_80_columns_without_colours() -> None:
    output = run(COLUMNS="80").output
    assert max(map(len, output.splitlines())) <= 80
    assert "\x1b" not in output


@pytest.mark.parametrize("arguments", [["config", "--jsn"], ["confg"], ["config", "transport"]])
def test_wrong_command_lines_end_with_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, arguments).exit_code == 2


def test_program() -> None:
    """As a user runs it: the module and, where it is installed, the script."""
    command = [sys.executable, "-X", "importtime", "-m", "rocecoll", "config"]
    [result] = run_programs([command], [environment(ROCECOLL_DSCP="64")])
    assert result.returncode == 1
    assert "problem: ROCECOLL_DSCP='64': accepted is a whole number from 0 to 63" in result.stdout
    assert " rocecoll.options\n" in result.stdout  # what -X importtime writes
    assert " torch\n" not in result.stdout


def test_a_tree_that_was_not_built_says_so() -> None:
    code = "import sys\nsys.modules['rocecoll._core'] = None\nfrom rocecoll.cli.app import main\nmain()"
    [result] = run_programs([[sys.executable, "-c", code, "doctor"]], [environment()])
    assert result.returncode == 1
    assert result.stdout.startswith("rocecoll: its own library cannot be loaded: ")
    assert "run `pip install --no-build-isolation .`" in result.stdout


def test_a_command_that_does_not_exist() -> None:
    result = CliRunner().invoke(app, ["confg"])
    assert result.exit_code == 2
    assert "No such command 'confg'" in result.output
