# SPDX-License-Identifier: Apache-2.0
"""The device under test by one set of names: a GPU, the fake one of the tests, or the CPU."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from contextlib import AbstractContextManager
from typing import Any

import fake_device
import torch

CALIBRATION_CYCLES = 100_000_000


class Device:
    """One of a rank's process. All ranks share device 0 unless a part says otherwise."""

    def __init__(self, kind: str, index: int = 0) -> None:
        self.kind = kind
        if kind == "fake":
            fake_device.load()
        if kind == "cuda":
            torch.cuda.set_device(index)
        self.torch = torch.device("cpu") if kind == "cpu" else torch.device(kind, index)
        self._opener: threading.Timer | None = None

    @property
    def is_cuda(self) -> bool:
        return self.kind == "cuda"

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy there."""
        return tensor.to(self.torch, copy=True)

    def full(self, count: int, value: float) -> torch.Tensor:
        return self.put(torch.full((count,), float(value)))

    def synchronize(self) -> None:
        if self.is_cuda:
            torch.cuda.synchronize(self.torch)
        elif self.kind == "fake":  # torch's own name for it returns at once in torch 2.11
            fake_device.ops().synchronize()

    def take_violations(self) -> list[str]:
        """Uses of memory after it was freed, as far as the device tells: the fake one does."""
        if self.kind != "fake":
            return []
        fake_device.ops().synchronize()
        return list(fake_device.ops().take_violations())

    def add(self, tensor: torch.Tensor, value: float) -> None:
        """A kernel on the current stream, which need not have run when this returns."""
        fake_device.add(tensor, value)

    def stream(self) -> Any:
        """A new one; it is a context in which it is the current one."""
        return torch.Stream(device=self.torch)

    def on(self, stream: Any) -> AbstractContextManager[Any]:
        return contextlib.nullcontext() if stream is None else stream

    def busy(self, seconds: float) -> None:
        """Keeps the current stream from what is queued behind this, for about that long."""
        if self.is_cuda:
            torch.cuda._sleep(int(seconds * self._cycles_a_second))
        elif self.kind == "fake":
            if self._opener is not None:
                self._opener.join()
            gate = fake_device.ops().close_gate(self.torch)
            self._opener = threading.Timer(seconds, fake_device.ops().open_gate, [gate])
            self._opener.start()

    @functools.cached_property
    def _cycles_a_second(self) -> float:
        torch.cuda._sleep(CALIBRATION_CYCLES)  # loads the kernel, and wakes the GPU
        self.synchronize()
        begin = time.perf_counter()
        torch.cuda._sleep(CALIBRATION_CYCLES)
        self.synchronize()
        return CALIBRATION_CYCLES / (time.perf_counter() - begin)
