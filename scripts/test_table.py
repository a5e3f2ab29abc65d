# SPDX-License-Identifier: Apache-2.0
"""The times that ./scripts/test ends with: of its parts and the slowest tests, and why these are slow."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from test_steps import Cost

REASONS = Path(__file__).resolve().parent / "slow_tests.txt"
SLOWEST = 10
NEEDS_REASON_S = 20.0
NO_REASON = f"no reason in scripts/{REASONS.name}"


def read_reasons(path: Path = REASONS) -> dict[str, str]:
    """The reasons why tests may be slow, by a pattern of their names."""
    lines = [line.strip() for line in path.read_text().splitlines()]
    pairs = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return {pattern: reason.strip() for pattern, _, reason in pairs}


def reason_of(name: str, reasons: dict[str, str]) -> str:
    return next((why for pattern, why in reasons.items() if fnmatchcase(name, pattern)), NO_REASON)


def parts(costs: Sequence[Cost], earlier_s: float) -> str:
    """`earlier_s`: the time of ./scripts/setup, before any Python could count."""
    row = "{:>8} {:>12}  {}".format
    lines = [row("seconds", "processor s", "part")]
    if earlier_s:
        lines.append(row(f"{earlier_s:.0f}", "", "Set-up: packages, build of the package"))
    lines += [row(f"{one.seconds:.0f}", f"{one.processor_s:.0f}", one.title) for one in costs]
    lines.append(
        row("", f"{sum(one.processor_s for one in costs):.0f}", "all parts but the set-up")
    )
    return "\n".join(lines)


def slowest(seconds: Sequence[tuple[float, str]], ordinary: bool = True) -> str:
    """The slowest ten, and all others that took long enough to need a reason.

    Without `ordinary`, tests run at full numbers or under a sanitizer, which is reason enough.
    """
    reasons = read_reasons()
    lines = [f"{'seconds':>8}  test"]
    for rank, (took_s, name) in enumerate(sorted(seconds, reverse=True)):
        long = took_s > NEEDS_REASON_S
        if not (long and ordinary) and rank >= SLOWEST:
            break
        why = f": {reason_of(name, reasons)}" if long and ordinary else ""
        lines.append(f"{took_s:8.1f}  {name}{why}")
    return "\n".join(lines)
