# SPDX-License-Identifier: Apache-2.0
"""Runs whole programs: bounded in time, without the caller's options and launcher variables."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"
WHOLE_LINES = Path(__file__).resolve().parent / "whole_lines"
LIMIT_S = 400.0
STACKS_LIMIT_S = 30.0
OPTIONS = ("ROCECOLL_", "NCCL_")  # of ours; what gloo needs, tests of gloo need, too
LAUNCHERS = ("OMPI_", "PMI", "MPI_", "SLURM_", "TORCHELASTIC_")
PLACE = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def environment(**extra: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith((*OPTIONS, *LAUNCHERS)) and name not in PLACE
    }
    kept |= {
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        **extra,
    }
    paths = [str(WHOLE_LINES), kept.get("PYTHONPATH", "")]
    return {**kept, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


# Below those that Linux gives out, which somebody else might be given before the port is used.
_ports = itertools.count(random.SystemRandom().randrange(12_000, 30_000))


def free_port() -> int:
    """Another one at each call, and hardly one that other tests take meanwhile."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port := next(_ports)))
            return port


def run_programs(
    commands: Sequence[Sequence[str]],
    environments: Sequence[dict[str, str]],
    limit_s: float = LIMIT_S,
) -> list[subprocess.CompletedProcess[str]]:
    """Starts all commands at once; ends them and their children at the limit, with their stacks."""
    processes = [
        subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for command, env in zip(commands, environments, strict=True)
    ]
    results, deadline = [], time.monotonic() + limit_s
    try:
        for process in processes:
            output, _ = process.communicate(timeout=max(0.0, deadline - time.monotonic()))
            results.append(subprocess.CompletedProcess(process.args, process.returncode, output))
    finally:
        # At the limit, also that of the test, which interrupts the wait.
        for process in processes:
            if process.poll() is None:
                output = end_tree(process)
                print(f"had not ended: {process.args}\n{output}", file=sys.stderr)
    return results


def end_tree(process: subprocess.Popen[str]) -> str:
    """What it has written, in the end the stacks of the programs that are Python's."""
    root = psutil.Process(process.pid)
    for program in [*root.children(recursive=True), root]:
        # Those that others wait for would end them, too.
        with contextlib.suppress(psutil.NoSuchProcess):
            if not program.children() and "python" in program.name():
                program.send_signal(signal.SIGABRT)  # environment() has faulthandler write them
    try:
        output, _ = process.communicate(timeout=STACKS_LIMIT_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(psutil.NoSuchProcess):
            for program in [*root.children(recursive=True), root]:
                program.kill()
        output, _ = process.communicate()
    return output


def run_program(command: Sequence[str], **extra: str) -> str:
    """The output of one program, which must succeed."""
    [result] = run_programs([command], [environment(**extra)])
    assert result.returncode == 0, f"{command}\n{result.stdout}"
    return result.stdout


def torchrun(ranks: int, script: Path, *arguments: str, **extra: str) -> str:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(ranks), str(script), *arguments]
    return run_program(command, **extra)


def without_numpy(directory: Path) -> dict[str, str]:
    """Variables of programs that are to find no numpy, which torch runs without."""
    directory.joinpath("numpy.py").write_text("raise ModuleNotFoundError('no numpy')")
    path = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(directory), path)))}


def mpirun(ranks: int, script: Path, *arguments: str, **extra: str) -> str:
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks)]
    command += [sys.executable, str(script), *arguments]
    return run_program(command, **extra)
