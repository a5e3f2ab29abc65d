# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.nn.functional: differentiable collectives, forward and backward like gloo's."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
import torch_features
from exact import assert_same
from reference import assert_like_gloo
from torch.distributed.nn import functional

pytestmark = [pytest.mark.quick, pytest.mark.lossy]

Leaves = list[torch.Tensor]
Outputs = list[torch.Tensor]


def leaf(rows: int, seed: int) -> torch.Tensor:
    """Small integers, so that sums have one result in every order."""
    generator = torch.Generator().manual_seed(31 * dist.get_rank() + seed)
    return torch.randint(-5, 6, (rows, 3), generator=generator).double().requires_grad_()


def pieces() -> Leaves:
    return [leaf(4, seed) for seed in range(dist.get_world_size())]


def broadcast(group: dist.ProcessGroup) -> tuple[Leaves, Outputs]:
    leaves = [leaf(5, 1)]
    return leaves, [functional.broadcast(leaves[0], dist.get_world_size() - 1, group)]


def reduce(group: dist.ProcessGroup) -> tuple[Leaves, Outputs]:
    leaves = [leaf(5, 2)]
    output = functional.reduce(leaves[0], 1, group=group)
    return leaves, [output * (dist.get_rank() == 1)]  # elsewhere the output is not defined


def all_reduce(group: dist.ProcessGroup) -> tuple[Leaves, Outputs]:
    leaves = [leaf(7, 3)]
    return leaves, [functional.all_reduce(leaves[0], group=group)]


def all_gather(group: dist.ProcessGroup) -> tuple[Leaves, Outputs]:
    leaves = [leaf(3, 4)]
    return leaves, list(functional.all_gather(leaves[0], group))


def gather(group: dist.ProcessGroup) -> tuple[Leaves, Outputs]:
    leaves = [leaf(3, 5)]
    return leaves, list(functional.gather(leaves[0], 1, group))


def scatter(group: dist.ProcessGroup) -> tuple[Leaves, Outputs]:
    leaves = pieces()
    return leaves, [functional.scatter(leaves, 0, group)]


def reduce_scatter(group: dist.ProcessGroup) -> tuple[Leaves, Outputs]:
    leaves = pieces()
    output = torch.empty(4, 3, dtype=torch.float64)
    return leaves, [functional.reduce_scatter(output, leaves, group=group)]


def all_to_all(group: dist.ProcessGroup) -> tuple[Leaves, Outputs]:
    leaves = pieces()
    outputs = [torch.empty(4, 3, dtype=torch.float64) for _ in leaves]
    return leaves, list(functional.all_to_all(outputs, leaves, group))


def all_to_all_single(group: dist.ProcessGroup) -> tuple[Leaves, Outputs]:
    """Rank r sends r + t rows to rank t: uneven, and nothing from rank 0 to itself."""
    rank, size = dist.get_rank(), dist.get_world_size()
    splits = [rank + other for other in range(size)]
    leaves = [leaf(sum(splits), 6)]
    output = torch.empty(sum(splits), 3, dtype=torch.float64)
    return leaves, [functional.all_to_all_single(output, leaves[0], splits, splits, group)]


CASES = (
    broadcast,
    reduce,
    all_reduce,
    all_gather,
    gather,
    scatter,
    reduce_scatter,
    all_to_all,
    all_to_all_single,
)


def differentiate(
    case: Callable[[dist.ProcessGroup], tuple[Leaves, Outputs]], group: dist.ProcessGroup
) -> tuple[list, list]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch prefers the functional collectives
        leaves, outputs = case(group)
    # Each rank weighs its outputs in its own way, so that a gradient shows whence it came.
    loss = sum(
        (output * (10 * index + dist.get_rank() + 1)).sum() for index, output in enumerate(outputs)
    )
    loss.backward()
    return [output.detach() for output in outputs], [one.grad for one in leaves]


def check_like_gloo(name: str) -> None:
    case = next(case for case in CASES if case.__name__ == name)
    _, gradients = assert_like_gloo(lambda group: differentiate(case, group))
    assert all(gradient is not None for gradient in gradients)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", [case.__name__ for case in CASES])
def test_like_gloo(shared_pool, size: int, name: str) -> None:
    if name == "reduce_scatter" and not torch_features.GLOO_HAS_REDUCE_SCATTER:
        pytest.skip("before torch 2.8 gloo has no reduce_scatter to compare with")
    shared_pool(size).run(check_like_gloo, name)


def check_uneven_lists() -> None:
    """Lists of different lengths, which gloo refuses; the gradient is known."""
    rank, size = dist.get_rank(), dist.get_world_size()
    inputs = [
        torch.full((rank + other, 2), 1.0 * rank, requires_grad=True) for other in range(size)
    ]
    outputs = [torch.empty(rank + other, 2) for other in range(size)]
    outputs = list(functional.all_to_all(outputs, inputs))
    for source, output in enumerate(outputs):
        assert_same(output, torch.full((rank + source, 2), 1.0 * source), source)
    sum(((rank + 1) * output).sum() for output in outputs).backward()
    for target, tensor in enumerate(inputs):
        assert_same(tensor.grad, torch.full((rank + target, 2), 1.0 + target), target)


@pytest.mark.parametrize("size", [2, 3])
def test_uneven_lists(shared_pool, size: int) -> None:
    shared_pool(size).run(check_uneven_lists)
