# SPDX-License-Identifier: Apache-2.0
"""scripts/compare_settings.py: what is run in which order with which settings, and the resulting
ratios."""

from __future__ import annotations

import json
from pathlib import Path

import compare_settings as settings
import pytest

pytestmark = pytest.mark.quick

# Notes how it was called; twice the time with spin_us at 0, thrice on the network mtu=9000.
FAKE_BENCH = """
import json, os, sys
spin, words = os.environ.get("ROCECOLL_SPIN_US", ""), sys.argv[1:]
with open(os.environ["CALLS"], "a") as calls:
    calls.write(json.dumps([spin, words[words.index("0.5") + 1 : words.index("--output")]]) + "\\n")
time_us = 10.0 * (2 if spin == "0" else 1) * (3 if "veth:mtu=9000" in words else 1)
row = {"operation": "all_reduce", "bytes": 8, "ranks": 2}
row["peers"] = {"rocecoll": {"p50_us": time_us}}
with open(words[-1], "w") as report:
    json.dump({"rows": [row]}, report)
sys.exit(words[0] != "--vs")
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    bench = tmp_path / "bench.py"
    bench.write_text(FAKE_BENCH)
    monkeypatch.setattr(settings, "BENCH", bench)
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.delenv("ROCECOLL_SPIN_US", raising=False)
    return tmp_path / "calls"


def made(calls: Path) -> list[list]:
    return [json.loads(line) for line in calls.read_text().splitlines()]


def test_with_and_without_take_turns(calls: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings.main(["ROCECOLL_SPIN_US=0", "--", "-b", "8"])
    without, given = ["", ["-b", "8"]], ["0", ["-b", "8"]]
    assert made(calls) == [without, given, given, without] * settings.ROUNDS
    assert capsys.readouterr().out == (
        "all_reduce of 8 bytes, 2 ranks: 10.0 us, with the setting 20.0 us: "
        "2.00 of the time (2.00-2.00)\n"
    )


def test_an_argument_is_taken_in_place_of_the_common_one(
    calls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.main(["--network", "veth:mtu=9000", "--", "--network", "veth", "-b", "8"])
    assert made(calls)[:2] == [
        ["", ["--network", "veth", "-b", "8"]],
        ["", ["-b", "8", "--network", "veth:mtu=9000"]],
    ]
    assert "3.00 of the time" in capsys.readouterr().out


def test_the_range_is_that_of_the_rounds() -> None:
    text = settings.line(("broadcast", 64, 3), [10.0, 10.0, 20.0, 20.0], [5.0, 15.0, 10.0, 10.0])
    assert text == (
        "broadcast of 64 bytes, 3 ranks: 15.0 us, with the setting 10.0 us: "
        "0.67 of the time (0.50-1.00)"
    )


def test_a_bench_that_fails_is_told(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "BLOCKS", ["--wrong", "0.5"])
    with pytest.raises(SystemExit, match=r"bench[.]py --wrong"):
        settings.main(["ROCECOLL_SPIN_US=0", "--", "-b", "8"])


def test_without_what_both_have_it_says_how(calls: Path) -> None:
    with pytest.raises(SystemExit, match="A round goes A B B A"):
        settings.main(["ROCECOLL_SPIN_US=0"])
    assert not calls.exists()
