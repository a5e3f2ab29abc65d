# SPDX-License-Identifier: Apache-2.0
"""Checks what rocecoll does with tensors of a GPU, with two ranks on one GPU, in at most 8 minutes.

Needs no network and leaves the environment as it is: it takes the rocecoll of this tree that is
installed there, a wheel, or builds this tree into build/gpu_check (a minute of 16 cores, two or three of
two). Each part has processes and a limit of its own; one that fails, hangs or cannot run is named, and
the others go on. At the end stand a table in Markdown, which is written to report.md, and the same as
JSON; exit status 0 if every part that ran has passed, 1 if not, 2 if there was nothing to check.

  scripts/gpu_check                        everything, on the GPU; on 16 cores about 5 minutes
  scripts/gpu_check --device cpu --small   the same on the CPU, where it can be, in small: half a minute
  scripts/gpu_check --device fake          on the accelerator that the tests pretend to have
  scripts/gpu_check --only streams --only stall
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests" / "python"))  # the fake device, exact results, operations

from gpu_parts import installation  # noqa: E402
from gpu_parts.parts import DEVICES, PARTS  # noqa: E402

BUDGET_S = 480.0
NOTHING_TO_CHECK = 2
FOR_PARTS = 0.5  # of the budget, at least, is kept for the time after the build


def arguments() -> argparse.Namespace:
    listed = "\n".join(f"  {part.name:22}{part.shows}" for part in PARTS)
    parser = argparse.ArgumentParser(
        prog="scripts/gpu_check",
        description=__doc__,
        epilog=f"parts:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", choices=DEVICES, help="without it cuda, where there is one")
    parser.add_argument("--small", action="store_true", help="few and small sizes")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        choices=[part.name for part in PARTS],
        metavar="PART",
        help="this one, and others that are named so",
    )
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds for all of it")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--wheel", type=Path, help="check this one, not the tree")
    which.add_argument(
        "--installed", action="store_true", help="check the one that this Python has"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=installation.FOLDER,
        help="folder of report.md, report.json and log.txt; build/gpu_check",
    )
    return parser.parse_args()


def main() -> int:
    begun = time.monotonic()
    asked = arguments()
    signal.signal(signal.SIGTERM, lambda got, _: sys.exit(128 + got))  # which ends the ranks
    try:
        there = installation.prepare(asked.wheel, asked.installed, asked.budget * (1 - FOR_PARTS))
        if there.folder is not None:
            os.environ.update(installation.path_with(there.folder))  # of the ranks
            sys.path.insert(0, str(there.folder))
        from gpu_parts import checking  # which loads torch

        end = begun + asked.budget
        return checking.check(asked.device, asked.small, asked.only, there.how, end, asked.output)
    except installation.NothingToCheckError as error:
        print(f"gpu_check: {error}", file=sys.stderr)
        return NOTHING_TO_CHECK


if __name__ == "__main__":
    sys.exit(main())
