# SPDX-License-Identifier: Apache-2.0
"""Trains under DistributedDataParallel with a backend of torch's own, as any program does.

    python knows_only_torch.py [BACKEND]

Without BACKEND torch chooses. Nothing here knows of rocecoll; the last lines say what carried it.
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train() -> float:
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(5):
        inputs = torch.randn(8, 4, generator=generator)
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    total = loss.detach()
    dist.all_reduce(total)
    return total.item()


def main() -> None:
    dist.init_process_group(*sys.argv[1:2])
    total = train()
    group = dist.new_group()
    dist.monitored_barrier(group)
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    classes = {
        type(one._get_backend(torch.device("cpu"))).__module__
        for one in (dist.group.WORLD, group, mesh.get_group())
        if one is not None
    }
    # One write, so that lines of different ranks do not mix.
    os.write(1, f"loss {total:.4f} by {dist.get_backend()} in {sorted(classes)}\n".encode())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
