# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel: the weights of one process that has the whole batch."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from gpu_parts.rank import Rank

STEPS, SMALL_STEPS = 15, 3
SHARE = 16  # of the batch, each rank's


def make_model() -> nn.Sequential:
    torch.manual_seed(3)
    layers = (nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    return nn.Sequential(*layers).double()


def run(rank: Rank) -> None:
    rank.join()
    place = rank.device.torch
    alone, model = make_model().to(place), make_model().to(place)
    wrapped = DistributedDataParallel(model, bucket_cap_mb=0.2)  # several buckets
    steps = SMALL_STEPS if rank.small else STEPS
    train(rank, alone, wrapped, steps)
    for (name, ours), expected in zip(model.named_parameters(), alone.parameters(), strict=True):
        close = torch.allclose(ours.cpu(), expected.cpu(), rtol=1e-9, atol=1e-11)
        rank.expect(close, "weights that differ from one process':", name)
    alike(rank, [parameter.detach() for parameter in model.parameters()], "weights")
    if not rank.small:
        compressed(rank)
    rank.tell("steps", steps)
    dist.barrier()
    dist.destroy_process_group()


def train(rank: Rank, alone: nn.Module, wrapped: nn.Module, steps: int) -> None:
    """The same steps: one process with the whole batch, and the ranks with a share each."""
    generator = torch.Generator().manual_seed(4)
    mine = slice(SHARE * rank.number, SHARE * (rank.number + 1))
    for _ in range(steps):
        batch = torch.randn(SHARE * rank.size, 64, generator=generator).double()
        for model, data in ((alone, batch), (wrapped, batch[mine])):
            model.zero_grad()
            model(rank.device.put(data)).square().mean().backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    assert parameter.grad is not None
                    parameter.sub_(parameter.grad, alpha=0.05)


def alike(rank: Rank, tensors: list[torch.Tensor], what: str) -> None:
    """The same bytes on all ranks."""
    flat = torch.cat([tensor.reshape(-1).cpu() for tensor in tensors])
    everyones = [torch.empty_like(flat) for _ in range(rank.size)]
    dist.all_gather(everyones, flat)
    for peer, theirs in enumerate(everyones):
        rank.same(theirs, flat, what, "of rank", peer)


def compressed(rank: Rank) -> None:
    """Gradients that are views of the buckets, sent as float16 from a hook's future."""
    model = DistributedDataParallel(
        make_model().float().to(rank.device.torch), gradient_as_bucket_view=True
    )
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    for _ in range(3):
        data = torch.randn(8, 64, generator=torch.Generator().manual_seed(rank.number))
        model(rank.device.put(data)).sum().backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    alike(rank, gradients, "gradients sent as float16")
