# SPDX-License-Identifier: Apache-2.0
"""Runs whole programs: bounded in time, without the caller's options and launcher variables.

Python programs are forked from a process that has torch, which takes a tenth of the time that an
interpreter takes. Tests about imports, about variables that are read early, or about the launcher
itself ask for a `fresh` interpreter.
"""

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
from forked_programs import ForkedPrograms

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


# Below the ports that Linux assigns, which another program might get before ours is used.
_ports = itertools.count(random.SystemRandom().randrange(12_000, 30_000))


def free_port() -> int:
    """A different one at each call, which other tests are unlikely to take meanwhile."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port := next(_ports)))
            return port


forked_programs = ForkedPrograms()
STARTERS = (sys.executable, "mpirun", "ip")  # not those that restrict what a program may do


def start(
    command: Sequence[str], environment_: dict[str, str], fresh: bool = False
) -> subprocess.Popen[str]:
    """Starts a program with its output in a pipe."""
    if not fresh and command[0] in STARTERS and sys.executable in command:
        python = forked_programs.python(environment())
        command = [python if word == sys.executable else word for word in command]
        environment_ = {**environment_, "PYTHON_EXEC": python}
    return subprocess.Popen(
        command, env=environment_, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def run_programs(
    commands: Sequence[Sequence[str]],
    environments: Sequence[dict[str, str]],
    limit_s: float = LIMIT_S,
    fresh: bool = False,
) -> list[subprocess.CompletedProcess[str]]:
    """Starts all commands at once; ends them and their children at the limit, with their stacks."""
    processes = [
        start(command, environment_, fresh)
        for command, environment_ in zip(commands, environments, strict=True)
    ]
    results, deadline = [], time.monotonic() + limit_s
    try:
        for process in processes:
            output, _ = process.communicate(timeout=max(0.0, deadline - time.monotonic()))
            results.append(subprocess.CompletedProcess(process.args, process.returncode, output))
    finally:
        # Reached at the limit, also at that of the test, which interrupts the wait.
        for process in processes:
            if process.poll() is None:
                output = end_tree(process)
                print(f"had not ended: {process.args}\n{output}", file=sys.stderr)
    return results


def end_tree(process: subprocess.Popen[str]) -> str:
    """Ends it and returns its output, which ends with the stacks of the Python programs in it."""
    root = psutil.Process(process.pid)
    for program in [*forked_programs.descendants(root), root]:
        # Those that others wait for would end them, too.
        with contextlib.suppress(psutil.NoSuchProcess):
            if not forked_programs.descendants(program) and "python" in program.name():
                program.send_signal(signal.SIGABRT)  # environment() has faulthandler write them
    try:
        output, _ = process.communicate(timeout=STACKS_LIMIT_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(psutil.NoSuchProcess):
            for program in [*forked_programs.descendants(root), root]:
                program.kill()
        output, _ = process.communicate()
    return output


def run_program(command: Sequence[str], fresh: bool = False, **extra: str) -> str:
    """The output of one program, which must succeed."""
    [result] = run_programs([command], [environment(**extra)], fresh=fresh)
    assert result.returncode == 0, f"{command}\n{result.stdout}"
    return result.stdout


def torchrun(ranks: int, script: Path, *arguments: str, fresh: bool = False, **extra: str) -> str:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(ranks), str(script), *arguments]
    return run_program(command, fresh, **extra)


def without_numpy(directory: Path) -> dict[str, str]:
    """Variables with which a program finds no numpy. Torch runs without it."""
    directory.joinpath("numpy.py").write_text("raise ModuleNotFoundError('no numpy')")
    path = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(directory), path)))}


def mpirun(ranks: int, script: Path, *arguments: str, **extra: str) -> str:
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks)]
    command += [sys.executable, str(script), *arguments]
    return run_program(command, **extra)
