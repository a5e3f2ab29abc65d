# SPDX-License-Identifier: Apache-2.0
"""How long a rank polls: it needs a core, and processor time that is not limited."""

from __future__ import annotations

import os

import pytest

from rocecoll import Options
from rocecoll.host import processors
from rocecoll.options import resolve, runtime_settings


@pytest.fixture
def without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processors, "granted", lambda: None)


@pytest.mark.parametrize(
    ("granted", "spins"), [(None, None), (4.0, None), (3.5, 50.0), (2.0, 50.0)]
)
def test_who_has_limited_time_polls_for_little_of_it(
    granted: float | None, spins: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    monkeypatch.setattr(processors, "granted", lambda: granted)
    assert runtime_settings(resolve(), "::1", local_ranks=2)["spin_us"] == spins
    assert runtime_settings(resolve(), "::1", local_ranks=5)["spin_us"] == 0


@pytest.mark.usefixtures("without_a_limit")
def test_spinning_needs_a_core_for_every_local_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    settings = resolve()
    assert runtime_settings(settings, "::1", local_ranks=2)["spin_us"] is None
    assert runtime_settings(settings, "::1", local_ranks=3)["spin_us"] == 0
    forced = resolve(Options(spin_us=7).values)
    assert runtime_settings(forced, "::1", local_ranks=3)["spin_us"] == 7


@pytest.mark.usefixtures("without_a_limit")
def test_ranks_that_are_pinned_each_have_their_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    masks = {0: {3}, os.getppid(): {0, 1, 2, 3}}
    monkeypatch.setattr(os, "sched_getaffinity", masks.__getitem__)
    settings = resolve()
    assert runtime_settings(settings, "::1", local_ranks=4)["spin_us"] is None
    assert runtime_settings(settings, "::1", local_ranks=5)["spin_us"] == 0
    masks[os.getppid()] = {3}  # all of them on one
    assert runtime_settings(settings, "::1", local_ranks=2)["spin_us"] == 0


@pytest.mark.usefixtures("without_a_limit")
def test_a_launcher_that_has_ended_pins_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def affinity(process: int) -> set[int]:
        if process != 0:
            raise ProcessLookupError
        return {0, 1}

    monkeypatch.setattr(os, "sched_getaffinity", affinity)
    assert runtime_settings(resolve(), "::1", local_ranks=2)["spin_us"] is None
    assert runtime_settings(resolve(), "::1", local_ranks=3)["spin_us"] == 0


@pytest.mark.usefixtures("without_a_limit")
def test_where_nobody_tells_all_ranks_may_be_on_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    spins = runtime_settings(resolve(), "::1", local_ranks=0, all_ranks=2)
    assert spins["spin_us"] is None and spins["local_ranks"] == 0
    assert runtime_settings(resolve(), "::1", local_ranks=0, all_ranks=3)["spin_us"] == 0
    assert runtime_settings(resolve(), "::1", local_ranks=2, all_ranks=3)["spin_us"] is None
