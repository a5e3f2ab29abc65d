# SPDX-License-Identifier: Apache-2.0
"""What a rank computes between two operations, as a training step does, for a given time."""

from __future__ import annotations

import random
import time

import torch

WEIGHTS, WIDTH, ROWS = 64, 256, 32  # 16 MiB in all, of which a product reads 256 KiB in some 50 us
SKEW = 0.2  # no two ranks compute for the same time: each for up to so much more or less


class Computing:
    """Matrix products on more memory than a core's own caches hold, so that what an operation needs
    is as cold as a training step leaves it."""

    def __init__(self, rank: int, mean_s: float) -> None:
        self.mean_s, self.turn = mean_s, 0
        self.times = random.Random(rank)  # the same for all peers, as each has its own
        self.weights = torch.ones(WEIGHTS, WIDTH, WIDTH)
        self.rows = torch.ones(ROWS, WIDTH)
        self.product = torch.empty(ROWS, WIDTH)

    def __call__(self) -> None:
        end = time.perf_counter() + self.mean_s * self.times.uniform(1 - SKEW, 1 + SKEW)
        while time.perf_counter() < end:
            torch.mm(self.rows, self.weights[self.turn % WEIGHTS], out=self.product)
            self.turn += 1
