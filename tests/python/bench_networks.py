# SPDX-License-Identifier: Apache-2.0
"""For tests on the networks of scripts/bench."""

from __future__ import annotations

import functools
import os

import pytest
from benchmarks import delay_line, network_spec
from benchmarks.commands import CommandError, run
from benchmarks.network_spec import NetworkError

BUCKET = ("tbf", "rate", "1mbit", "burst", "8kb", "limit", "16kb")


@functools.cache
def obstacle() -> str:
    """Why no network can be made on this machine, or nothing. Tried with commands alone, without
    the code under test."""
    if os.geteuid() != 0:
        return "they need root"
    name = f"rocecoll{os.getpid()}trial"
    try:
        run("ethtool", "--version")
        run("ip", "netns", "add", name)
        try:
            run("ip", "-n", name, "link", "add", "type", "veth")
            run("ip", "-n", name, "link", "add", "type", "bridge")
            run("tc", "-n", name, "qdisc", "add", "dev", "lo", "root", *BUCKET)
        finally:
            run("ip", "netns", "del", name)
    except CommandError as error:
        return str(error)
    return ""


def lacking(name: str) -> str:
    """What this machine lacks for the network, or nothing. Any other reason that it cannot be made is an error."""
    if found := obstacle():
        return found
    settings = network_spec.settings(name)
    _, control = network_spec.flows_of(settings.get("beside", ""))
    if control and control not in network_spec.CONTROLS.read_text().split():
        return f"no congestion control {control}"
    if "delay" in settings:
        try:
            delay_line.require()
        except NetworkError as error:
            return str(error)
    return ""


def need(*names: str) -> None:
    """Skips where such networks cannot be made."""
    for name in names:
        if why := lacking(name):
            pytest.skip(f"no such networks here: {why}")
