# SPDX-License-Identifier: Apache-2.0
"""For tests on the networks of scripts/bench."""

from __future__ import annotations

import pytest
from benchmarks import networks
from benchmarks.commands import CommandError
from benchmarks.network_spec import NetworkError, parse


def need(*names: str) -> None:
    """Skips where such networks cannot be made."""
    for name in names:
        try:
            with networks.made(parse(name)):
                pass
        except (CommandError, NetworkError) as error:
            pytest.skip(f"no such networks here: {error}")
