# SPDX-License-Identifier: Apache-2.0
"""Layers spread over ranks compute, and learn, what they do on one; also under fully_shard."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from reference import assert_close
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

WORDS = 24
WIDTH = 12
HEADS = 12  # divisible by 2, 3 and 4 ranks
LENGTH = 12
RATE = 0.1
TURNS = 3
ROUNDING = 1e-11


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.output = nn.Linear(WIDTH, WIDTH)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            part(inputs).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        attended = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(attended.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.between = nn.LayerNorm(WIDTH)
        self.widen = nn.Linear(WIDTH, 2 * WIDTH)
        self.narrow = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        inputs = inputs + self.attention(self.before(inputs))
        return inputs + self.narrow(torch.relu(self.widen(self.between(inputs))))


class Reader(nn.Module):
    """A transformer that guesses the next word."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(23)
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.Sequential(Layer())
        self.guess = nn.Linear(WIDTH, WORDS)
        self.double()

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.guess(self.layers(self.embed(words)))


def apart(model: Reader, mesh: DeviceMesh, sequence: bool) -> Reader:
    """Spreads the layers over `mesh`; with `sequence` also what lies between them."""
    between = Shard(1) if sequence else Replicate()
    for layer in model.layers:
        plan = {
            "attention.query": ColwiseParallel(),
            "attention.key": ColwiseParallel(),
            "attention.value": ColwiseParallel(),
            "attention.output": RowwiseParallel(output_layouts=between),
            "widen": ColwiseParallel(input_layouts=between),
            "narrow": RowwiseParallel(output_layouts=between),
        }
        if sequence:
            plan |= {
                "before": SequenceParallel(),
                "attention": PrepareModuleInput(
                    input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
                ),
                "between": SequenceParallel(),
            }
        parallelize_module(layer, mesh, plan)
    return parallelize_module(
        model,
        mesh,
        {
            "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=between),
            "guess": ColwiseParallel(
                input_layouts=between, output_layouts=Shard(-1), use_local_output=False
            ),
        },
    )


def words(turn: int, part: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * turn + part)
    return torch.randint(0, WORDS, (2, LENGTH + 1), generator=generator)


def train(model: nn.Module, batches: list[torch.Tensor]) -> list[torch.Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        guesses = model(batch[:, :-1])
        targets = batch[:, 1:].flatten()
        with loss_parallel():
            loss = nn.functional.cross_entropy(guesses.flatten(0, 1), targets)
            loss.backward()
        optimizer.step()
        losses.append(loss.full_tensor() if isinstance(loss, DTensor) else loss.detach())
    return losses


def full_weights(model: nn.Module) -> list[torch.Tensor]:
    return [
        one.full_tensor() if isinstance(one, DTensor) else one.detach()
        for one in model.parameters()
    ]


def check_training(sequence: bool) -> None:
    model = apart(Reader(), init_device_mesh("cpu", (dist.get_world_size(),)), sequence)
    assert model.guess.weight.to_local().shape[0] == WORDS // dist.get_world_size()
    batches = [words(turn, 0) for turn in range(TURNS)]
    losses = train(model, batches)
    alone = Reader()
    assert_close(losses, train(alone, batches), ROUNDING)
    assert_close(full_weights(model), full_weights(alone), ROUNDING)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("sequence", [False, True], ids=["layers", "sequence"])
def test_training(shared_pool, size: int, sequence: bool) -> None:
    shared_pool(size).run(check_training, sequence)


def check_two_dimensions(sequence: bool) -> None:
    """Pairs of ranks share the layers, and the pairs the parameters and the samples."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("samples", "layers"))
    model = apart(Reader(), mesh["layers"], sequence)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh["samples"])
    fully_shard(model, mesh=mesh["samples"])
    part = mesh.get_local_rank("samples")
    train(model, [words(turn, part) for turn in range(TURNS)])
    alone = Reader()
    train(alone, [torch.cat([words(turn, 0), words(turn, 1)]) for turn in range(TURNS)])
    assert_close(full_weights(model), full_weights(alone), ROUNDING)


@pytest.mark.lossy
@pytest.mark.parametrize("sequence", [False, True], ids=["layers", "sequence"])
def test_two_dimensions(shared_pool, sequence: bool) -> None:
    shared_pool(4).run(check_two_dimensions, sequence)
