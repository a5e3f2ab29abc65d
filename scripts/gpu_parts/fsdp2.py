# SPDX-License-Identifier: Apache-2.0
"""fully_shard: the weights of one process; also where activations are computed again, by a choice."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from gpu_parts.ddp import make_model
from gpu_parts.rank import Rank

STEPS, SMALL_STEPS = 6, 2
SHARE = 4  # of the batch, each rank's


def run(rank: Rank) -> None:
    rank.join()
    mesh = init_device_mesh(rank.device.kind, (rank.size,))

    def shard(model: nn.Sequential) -> nn.Sequential:
        for layer in model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model

    alone = make_model().to(rank.device.torch)
    sharded = shard(make_model().to(rank.device.torch))
    train(rank, alone, sharded, SMALL_STEPS if rank.small else STEPS)
    for (name, ours), expected in zip(sharded.named_parameters(), alone.parameters(), strict=True):
        whole = ours.full_tensor()
        close = torch.allclose(whole, expected, rtol=1e-7, atol=1e-9)
        rank.expect(close, "weights that differ from one process':", name)
    selective(rank, shard(make_model().to(rank.device.torch)))
    dist.barrier()
    dist.destroy_process_group()


def train(rank: Rank, alone: nn.Module, sharded: nn.Module, steps: int) -> None:
    optimizers = [torch.optim.Adam(model.parameters(), 1e-3) for model in (alone, sharded)]
    generator = torch.Generator().manual_seed(4)
    mine = slice(SHARE * rank.number, SHARE * (rank.number + 1))
    for _ in range(steps):
        batch = torch.randn(SHARE * rank.size, 64, generator=generator).double()
        shares = (batch, batch[mine])
        for model, optimizer, data in zip((alone, sharded), optimizers, shares, strict=True):
            optimizer.zero_grad()
            model(rank.device.put(data)).square().mean().backward()
            optimizer.step()


def choose(context: Any, operator: Any, *arguments: Any, **named: Any) -> CheckpointPolicy:
    kept = operator == torch.ops.aten.addmm.default
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


def selective(rank: Rank, model: nn.Module) -> None:
    """Its dispatch mode is on while parameters are gathered, and must see none of rocecoll's copies."""
    contexts = functools.partial(create_selective_checkpoint_contexts, choose)
    try:
        for _ in range(3):
            data = rank.device.put(torch.randn(4, 64).double()).requires_grad_()
            result = checkpoint(model, data, use_reentrant=False, context_fn=contexts)
            result.square().mean().backward()
    except Exception as error:
        rank.fail("selective activation checkpointing:", type(error).__name__, str(error)[:300])
