# SPDX-License-Identifier: Apache-2.0
"""Times what a setting is worth: ./scripts/bench with it and without, in turn, and the ratios of medians.

    python scripts/compare_settings.py ROCECOLL_SPIN_US=0 -- -b 8 -e 8
    python scripts/compare_settings.py --network veth:mtu=9000 -- --network veth -b 1M -e 1M

Before `--` is what differs: variables, or arguments of bench in place of those behind it, which both
have. A round goes A B B A, each time with new processes, for options that a process has only once.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

BENCH = Path(__file__).with_name("bench.py")
ROUNDS = 2
BLOCKS = ["--vs", "none", "--rounds", "1", "--block-s", "0.5"]
LIMIT_S = 300.0
VARIABLE = re.compile(r"([A-Z_]+)=(.*)")

Case = tuple[str, int, int]  # operation, bytes, ranks


class Setting:
    """The parsed command line."""

    def __init__(self, words: list[str]) -> None:
        matches = [VARIABLE.fullmatch(word) for word in words]
        self.variables = {match[1]: match[2] for match in matches if match}
        self.arguments = [word for word, match in zip(words, matches, strict=True) if not match]

    def over(self, common: Setting) -> Setting:
        """Both lists; of an option of bench that both name, only the value here."""
        made = Setting([])
        made.variables = common.variables | self.variables
        own = {word for word in self.arguments if word.startswith("-")}
        kept, skipped = [], False
        for word in common.arguments:
            skipped = word in own if word.startswith("-") else skipped
            kept += [] if skipped else [word]
        made.arguments = kept + self.arguments
        return made


def medians_us(setting: Setting) -> dict[Case, float]:
    with tempfile.TemporaryDirectory(prefix="rocecoll-settings-") as directory:
        report = Path(directory) / "rows.json"
        writes = ["--output", str(report)]
        command = [sys.executable, str(BENCH), *BLOCKS, *setting.arguments, *writes]
        done = subprocess.run(
            command,
            env=os.environ | setting.variables,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"compare_settings: {' '.join(command)}\n{done.stdout}{done.stderr}")
        rows = json.loads(report.read_text())["rows"]
    return {
        (row["operation"], row["bytes"], row["ranks"]): row["peers"]["rocecoll"]["p50_us"]
        for row in rows
    }


def line(case: Case, without: list[float], given: list[float]) -> str:
    """The ratio of the medians, and the range of the ratios of the rounds."""
    rounds = [
        statistics.mean(given[turn : turn + 2]) / statistics.mean(without[turn : turn + 2])
        for turn in range(0, len(given), 2)
    ]
    operation, size, ranks = case
    mine, base = statistics.median(given), statistics.median(without)
    return (
        f"{operation} of {size} bytes, {ranks} ranks: {base:.1f} us, with the setting {mine:.1f} us: "
        f"{mine / base:.2f} of the time ({min(rounds):.2f}-{max(rounds):.2f})"
    )


def main(words: list[str]) -> None:
    if "--" not in words[1:]:
        raise SystemExit(__doc__)
    cut = words.index("--")
    common = Setting(words[cut + 1 :])
    sides = (common, Setting(words[:cut]).over(common))
    times: tuple[dict[Case, list[float]], ...] = ({}, {})
    for _ in range(ROUNDS):
        for side in (0, 1, 1, 0):
            for case, median_us in medians_us(sides[side]).items():
                times[side].setdefault(case, []).append(median_us)
    for case, without in times[0].items():
        print(line(case, without, times[1][case]))


if __name__ == "__main__":
    main(sys.argv[1:])
