# SPDX-License-Identifier: Apache-2.0
"""The fake accelerator of tests/fake_device: builds it, and loads it into torch as "fake".

Its streams are threads, so every machine can show what otherwise only an accelerator shows: copies
that are under way while the program goes on, and memory that is given out again too early. Run as a
program it only builds, so that this does not count as time of the tests.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent.parent
NAME = "fake"
DEVICES = 2  # kDevices in queue.h
POOL_STREAMS = 16  # kPoolStreams there: the streams that any caller may get


def _tool(name: str) -> str:
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    found = shutil.which(name, path=path)
    assert found is not None, f"building the fake accelerator needs {name}"
    return found


def build() -> Path:
    """The shared object, built if anything it is made of has changed."""
    directory = ROOT / "build" / f"fake-device-torch-{torch.__version__}"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cmake = _tool("cmake")
        if not (directory / "build.ninja").exists():
            _run(
                [
                    *[cmake, "-S", str(ROOT / "tests" / "fake_device")],
                    *["-B", str(directory), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"],
                    f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}",
                    f"-DTORCH_DIR={torch.__path__[0]}",
                    f"-DTORCH_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
                ]
            )
        _run([cmake, "--build", str(directory)])
    return directory / "fake_device.so"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command} failed\n{done.stdout[-4000:]}{done.stderr[-4000:]}"


def load() -> None:
    """Makes torch.device("fake") work in this process. Idempotent."""
    if hasattr(torch, NAME):
        return
    library = build()
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)  # has what is looked up in CUDA's driver
    torch.ops.load_library(library)
    torch.utils.rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, _module())
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=False)


def _module() -> Any:
    """What torch asks the module of an accelerator for."""
    module = types.ModuleType(f"torch.{NAME}")
    namespace: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "_is_in_bad_fork": lambda: False,
        "device_count": lambda: DEVICES,
        "current_device": lambda: torch.accelerator.current_device_index(),
        "set_device": lambda device: torch.accelerator.set_device_index(device),
        "current_stream": lambda device=None: torch.accelerator.current_stream(device),
        "synchronize": lambda device=None: torch.accelerator.synchronize(device),
        "stream": lambda stream: stream,  # streams are context managers
        "is_current_stream_capturing": lambda: ops().is_current_stream_capturing(),
        "Stream": torch.Stream,
        "Event": torch.Event,
        "manual_seed_all": lambda seed: None,
        "get_amp_supported_dtype": lambda: [torch.float16, torch.bfloat16],
    }
    vars(module).update(namespace)
    return module


def accelerator() -> torch.device:
    """In a rank of conftest's device_pool: the device under test."""
    name = os.environ["TEST_ACCELERATOR"]
    if name == NAME:
        load()
    return torch.device(name, 0)


def settle(device: torch.device) -> None:
    """Waits for the device. Nothing may have used memory after it was freed."""
    if device.type == NAME:
        ops().synchronize()
        assert ops().take_violations() == []
    else:
        torch.accelerator.synchronize(device)


def ops() -> Any:
    """The steering wheel: see the end of tests/fake_device/ops.cc."""
    return torch.ops.fake_device


def add(tensor: torch.Tensor, value: float) -> None:
    """A kernel on the current stream; returns before it has run."""
    if tensor.device.type == NAME:
        ops().queue_add(tensor, value)
    else:
        tensor.add_(value)


def idle_then_busy(device: torch.device) -> Iterator[contextlib.AbstractContextManager[bool]]:
    """Blocks that tell whether the stream is busy in them; all that is checked there is in that one.

    CUDA waits for the device when a kernel, or pinned memory of some size, is new to the process.
    """
    yield contextlib.nullcontext(False)
    torch.accelerator.synchronize(device)
    yield busy_stream(device)


@contextlib.contextmanager
def busy_stream(device: torch.device) -> Iterator[bool]:
    """What is queued on the current stream does not run before the end of the block, at which it is
    checked that nobody has waited for it."""
    closed = None
    if device.type == NAME:
        closed = ops().close_gate(device)
    else:
        torch.cuda._sleep(4_000_000_000)  # cycles, some seconds
    last = torch.Event(device=device)
    last.record()
    try:
        yield True
        assert not last.query(), "the block outlasted what it was to be compared with"
    finally:
        if closed is not None:
            ops().open_gate(closed)


if __name__ == "__main__":
    print(build())
