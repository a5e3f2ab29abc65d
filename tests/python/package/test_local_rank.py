# SPDX-License-Identifier: Apache-2.0
"""What a rank tells the core about its place on the host, by which it chooses a NIC."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from rocecoll import environment, options
from rocecoll.host.accelerators import VISIBLE, in_use, pci_address
from rocecoll.launcher_names import LOCAL_RANKS

pytestmark = pytest.mark.quick

GPUS = [f"0000:{bus}:00.0" for bus in ("0f", "1b", "9d", "b7")]


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*LOCAL_RANKS, VISIBLE):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def gpus(tmp_path: Path) -> Path:
    for address in reversed(GPUS):
        (tmp_path / address).mkdir()
    return tmp_path


@pytest.mark.parametrize(
    "name",
    ["LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"],
)
def test_every_launcher_tells_the_local_rank(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment.local_rank() is None
    assert options.runtime_settings(options.resolve(), "::1", 1)["local_rank"] == 0
    monkeypatch.setenv(name, "3")
    assert options.runtime_settings(options.resolve(), "::1", 1)["local_rank"] == 3


def test_the_nearest_launcher_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torchrun under sbatch, where Slurm started one process."""
    monkeypatch.setenv("SLURM_LOCALID", "0")
    monkeypatch.setenv("LOCAL_RANK", "2")
    assert environment.local_rank() == 2


@pytest.mark.parametrize(
    ("visible", "local_rank", "expected"),
    [
        (None, 2, GPUS[2]),
        (None, None, ""),
        (None, 4, ""),
        ("3", 1, GPUS[3]),
        ("3", None, GPUS[3]),
        ("2,3", 1, GPUS[3]),
        ("2, 3", 0, GPUS[2]),
        ("2,3", 2, ""),
        ("", 0, ""),
        ("9", 0, ""),
        ("GPU-8932f937", 0, ""),
        ("-1", 0, ""),
    ],
)
def test_the_gpu_of_a_rank(
    visible: str | None, local_rank: int | None, expected: str, gpus: Path
) -> None:
    assert pci_address(visible, local_rank, gpus) == expected


def test_a_single_gpu_is_everybodys_without_a_word(tmp_path: Path) -> None:
    (tmp_path / GPUS[0]).mkdir()
    assert pci_address(None, None, tmp_path) == GPUS[0]
    assert pci_address(None, 0, tmp_path / "nowhere") == ""


def test_an_accelerator_counts_once_the_program_uses_it() -> None:
    began: list[str] = []
    there = {
        name: SimpleNamespace(
            is_initialized=lambda name=name: name in began, current_device=lambda: 2
        )
        for name in ("cuda", "mine")
    }
    named = SimpleNamespace(_get_privateuse1_backend_name=lambda: "mine")
    torch = SimpleNamespace(_C=named, **there)
    assert in_use(torch) is None
    assert in_use(SimpleNamespace(_C=named)) is None
    for name in ("mine", "cuda"):
        began[:] = [name]
        assert in_use(torch) == f"{name}:2"
