# SPDX-License-Identifier: Apache-2.0
"""What the tests themselves rely on when they start programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from launch import end_tree, environment, run_program, run_programs, start

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_line_is_one_write_also_of_torchruns_workers(stream: str) -> None:
    """Another rank's line used to come between a line and its end, which joined the two
    (sitecustomize.py)."""
    reader, writer = os.pipe2(os.O_DIRECT)  # each read gives what one write brought, pipe(2)
    try:
        command = [sys.executable, "-u", "-c", f"import sys; print('lost', file=sys.{stream})"]
        subprocess.run(command, env=environment(), check=True, timeout=60, **{stream: writer})
        assert os.read(reader, 4096) == b"lost\n"
    finally:
        os.close(reader)
        os.close(writer)


PLACE = """
import __main__, os, sys
print(sys.argv, sys.path, os.getcwd(), __name__, vars().get("__file__"), __main__.__dict__ is globals())
print(sorted(name for name in os.environ if name not in ("PYTHON_EXEC", "_", "PWD", "OLDPWD")))
print(sys.stdout.line_buffering, os.listdir("/proc/self/fd"))
"""
LAST_WORDS = """
import atexit, threading
class Global:
    def __del__(self): print("global")
kept = Global()
atexit.register(print, "callback")
threading.Timer(0.1, print, ["thread"]).start()
"""
RAISES = "def fail():\n    raise ValueError('bad batch')\nfail()\n"
ENDS = {
    "place": PLACE,
    "last words": LAST_WORDS,
    "exception": LAST_WORDS + RAISES,
    "status": LAST_WORDS + "raise SystemExit(7)",
    "reason": "import sys; sys.exit('why')",
    "at once": LAST_WORDS + "import os; os._exit(3)",
    "killed": LAST_WORDS + "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "terminated": LAST_WORDS + "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
}


@pytest.mark.parametrize("kind", ["script", "code"])
@pytest.mark.parametrize("end", ENDS)
def test_a_forked_program_is_like_one_of_an_interpreter(
    kind: str, end: str, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(ENDS[end])
    program = [str(script)] if kind == "script" else ["-c", ENDS[end]]
    command = [sys.executable, *program, "one", "two"]
    [fresh] = run_programs([command], [environment()], fresh=True)
    [forked] = run_programs([command], [environment()])
    assert (forked.returncode, forked.stdout) == (fresh.returncode, fresh.stdout)


HAS_TORCH = [sys.executable, "-c", "import sys; print('torch' in sys.modules)"]


def test_variables_that_are_read_early_need_an_interpreter() -> None:
    assert run_program(HAS_TORCH) == "True\n"
    for variables in ({"TORCH_LOGS": "+all"}, {"PYTHONPATH": "/"}, {"OMP_NUM_THREADS": "2"}):
        assert run_program(HAS_TORCH, **variables) == "False\n", variables
    assert run_program(HAS_TORCH, ROCECOLL_SHM="0") == "True\n"


WAITS = (
    "import os, time\nprint(os.getpid(), flush=True)\ndef wait():\n    time.sleep(600)\nwait()\n"
)


def test_the_limit_ends_the_ranks_of_a_forked_launcher_with_their_stacks(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(WAITS)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    process = start([*command, "--nproc-per-node", "2", str(script)], environment())
    assert process.stdout is not None
    ranks = [int(process.stdout.readline()) for _ in range(2)]
    output = end_tree(process)
    assert output.count(f'File "{script}", line 4 in wait') == 2, output
    assert not any(map(psutil.pid_exists, ranks))


def test_a_forked_program_ends_with_what_stands_for_it() -> None:
    process = start([sys.executable, "-c", WAITS], environment())
    assert process.stdout is not None
    program = psutil.Process(int(process.stdout.readline()))
    process.kill()
    psutil.wait_procs([program], timeout=60)
    assert not program.is_running()
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
