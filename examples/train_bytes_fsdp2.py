# SPDX-License-Identifier: Apache-2.0
"""Train a byte-level transformer on the sources of Python's own library with FSDP2 (`fully_shard`).

    torchrun --nproc-per-node 2 examples/train_bytes_fsdp2.py

Each rank keeps its part of every weight, and gathers a layer's weights only while it computes with
them. The text and the batches are the same for any number of ranks that divides 12, so the loss is,
too, but for the last digits.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

import torch
import torch.distributed as dist
import typer
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

CONTEXT = 48  # bytes that a prediction may look at
BATCH = 12  # sequences of all ranks together
WIDTH, HEADS, LAYERS = 64, 4, 3
TEXT_BYTES = 1 << 20


def load_text() -> torch.Tensor:
    sources = sorted(Path(os.__file__).parent.glob("*.py"))
    text = bytearray(b"".join(path.read_bytes() for path in sources)[:TEXT_BYTES])
    return torch.frombuffer(text, dtype=torch.uint8).long()


class ByteTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bytes = nn.Embedding(256, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
            )
            for _ in range(LAYERS)
        )
        self.scores = nn.Linear(WIDTH, 256)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """A row of scores for the byte after each byte of each sequence."""
        hidden = self.bytes(text) + self.places.weight
        for layer in self.layers:
            hidden = layer(hidden, src_mask=self.mask, is_causal=True)
        return self.scores(hidden.flatten(0, 1))


def make_model() -> nn.Module:
    torch.manual_seed(0)
    model = ByteTransformer()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)  # gathered one layer at a time
    return fully_shard(model, mesh=mesh)  # and what is outside of the layers


def own_batch(text: torch.Tensor, choice: torch.Generator) -> torch.Tensor:
    """This rank's part of a batch that all ranks draw alike."""
    starts = torch.randint(len(text) - CONTEXT, (BATCH,), generator=choice)
    mine = starts.chunk(dist.get_world_size())[dist.get_rank()]
    return torch.stack([text[start : start + CONTEXT + 1] for start in mine.tolist()])


def main(steps: int = 100) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("rocecoll")
    rank, size = dist.get_rank(), dist.get_world_size()
    if BATCH % size:
        raise SystemExit(f"{size} ranks: the {BATCH} sequences of a batch must divide among them")
    model, text = make_model(), load_text()
    weights = sum(math.prod(weight.shape) for weight in model.parameters())
    mine = sum(weight.to_local().numel() for weight in model.parameters())
    print(f"rank {rank} of {size} keeps {mine} of {weights} weights", flush=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    choice = torch.Generator().manual_seed(1)
    for step in range(1, steps + 1):
        batch = own_batch(text, choice)
        optimizer.zero_grad()
        scores = model(batch[:, :-1])  # all_gather of each layer's weights
        loss = nn.functional.cross_entropy(scores, batch[:, 1:].flatten())
        loss.backward()  # and again, then reduce_scatter of their gradients
        optimizer.step()
        if step == 1 or step % 20 == 0:
            mean = loss.detach()
            dist.all_reduce(mean, dist.ReduceOp.AVG)
            if rank == 0:
                print(f"step {step}: {mean.item() / math.log(2):.3f} bits a byte", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    typer.run(main)
