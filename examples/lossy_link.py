# SPDX-License-Identifier: Apache-2.0
"""Train over a network that loses packets: it takes longer, and the result is the same to the bit.

    torchrun --nproc-per-node 2 examples/lossy_link.py
    ROCECOLL_FAULT=loss=0.05,seed=1 torchrun --nproc-per-node 2 examples/lossy_link.py

Every rank prints a fingerprint of its weights, and what it sent to each of the others.
"""

from __future__ import annotations

import hashlib

import torch
import torch.distributed as dist
import typer
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import rocecoll

WIDTH = 256


def train(steps: int) -> nn.Module:
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    choice = torch.Generator().manual_seed(rank)  # every rank has samples of its own
    for _ in range(steps):
        inputs = torch.randn(32, WIDTH, generator=choice)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), inputs.flip(1)).backward()
        optimizer.step()
    return model.module


def fingerprint(model: nn.Module) -> str:
    """Differs as soon as one bit of one weight does."""
    digest = hashlib.sha256()
    for weight in model.parameters():
        digest.update(bytes(weight.detach().view(torch.uint8).flatten().tolist()))
    return digest.hexdigest()[:16]


def main(steps: int = 50) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("rocecoll")
    rank = dist.get_rank()
    print(f"rank {rank}: weights {fingerprint(train(steps))}", flush=True)
    for row in rocecoll.peer_stats():
        if row["in_use"]:
            print(
                f"rank {rank} to rank {row['rank']} over {row['path']}: "
                f"{row['packets_sent']} packets, {row['packets_retransmitted']} of them again",
                flush=True,
            )
    dist.barrier()  # the links of a rank that leaves are gone at the others, too
    dist.destroy_process_group()


if __name__ == "__main__":
    typer.run(main)
