# SPDX-License-Identifier: Apache-2.0
"""Computes between two operations for a given time, as a training step does."""

from __future__ import annotations

import random
import time

import torch

WEIGHTS, WIDTH, ROWS = 64, 256, 32  # 16 MiB in all, of which a product reads 256 KiB in some 50 us
SKEW = 0.2  # ranks compute for different times: each up to this share more or less


class Computing:
    """Matrix products on more memory than a core's own caches hold, so that the caches are as cold for
    an operation as a training step leaves them."""

    def __init__(self, rank: int, mean_s: float) -> None:
        self.mean_s, self.turn = mean_s, 0
        self.times = random.Random(rank)  # equal for all peers: each has its own
        self.weights = torch.ones(WEIGHTS, WIDTH, WIDTH)
        self.rows = torch.ones(ROWS, WIDTH)
        self.product = torch.empty(ROWS, WIDTH)

    def __call__(self) -> None:
        end = time.perf_counter() + self.mean_s * self.times.uniform(1 - SKEW, 1 + SKEW)
        while time.perf_counter() < end:
            torch.mm(self.rows, self.weights[self.turn % WEIGHTS], out=self.product)
            self.turn += 1
