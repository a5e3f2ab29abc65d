# SPDX-License-Identifier: Apache-2.0
"""Two ranks of OpenMPI over UCX on the two devices of a guest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from benchmarks.cases import Transport

LIMIT_S = 120.0
# Each of these is needed, or makes OpenMPI faster here.
MCA = {
    "plm": "isolated",  # no remote shell
    "pml": "ucx",
    "pml_ucx_tls": "any",
    "pml_ucx_devices": "any",
    "osc": "^ucx",
    # If ranks share a processor: yield it while waiting, not only at every hundredth poll.
    "mpi_yield_when_idle": "1",
    "pml_ucx_progress_iterations": "1",
}
# rc connects its queue pairs by way of a UD one.
TRANSPORTS = {Transport.rc: "rc_verbs,ud_verbs:aux,self", Transport.ud: "ud_verbs,self"}


def command(interface: str, directory: str) -> list[str]:
    # Its control connections refuse the loopback.
    settings = {**MCA, "oob_tcp_if_include": interface}
    options = [word for name, value in settings.items() for word in ("--mca", name, value)]
    program = [sys.executable, "-m", "benchmarks.openmpi_rank", directory]
    started = ["mpirun", "-np", "2", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    return [*started, *options, *program]


def environment(transport: Transport, gid_index: str) -> dict[str, str]:
    return {
        "UCX_TLS": TRANSPORTS[transport],
        "UCX_IB_GID_INDEX": gid_index,
        # Its check drops what comes from an address of the same machine.
        "UCX_UD_VERBS_ETH_DGID_CHECK": "n",
    }


def slowest(ranks: Iterable[dict[str, list[float]]]) -> dict[int, list[float]]:
    """Seconds of each call on its slowest rank, by the size in bytes."""
    per_rank = list(ranks)
    return {
        int(size): [max(times) for times in zip(*(rank[size] for rank in per_rank), strict=True)]
        for size in per_rank[0]
    }


def seconds_of_calls(transport: Transport) -> dict[int, list[float]]:
    interface = os.environ["SOFTROCE_INTERFACES"].split()[0]
    gid_index = os.environ["SOFTROCE_GID_INDEXES"].split()[0]
    with tempfile.TemporaryDirectory() as directory:
        run = subprocess.run(
            command(interface, directory),
            env={**os.environ, **environment(transport, gid_index)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
        )
        if run.returncode != 0:
            raise RuntimeError(f"OpenMPI failed (status {run.returncode}):\n{run.stdout}")
        return slowest(json.loads(Path(directory, f"{rank}.json").read_text()) for rank in (0, 1))
