# SPDX-License-Identifier: Apache-2.0
"""Functional collectives, which FSDP2, DTensor and torch.compile build on: eager and compiled."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
import torch_features
from exact import assert_same
from reference import assert_like_gloo
from torch._dynamo.testing import CompileCounterWithBackend
from torch.distributed import _functional_collectives as functional

sizes = pytest.mark.parametrize("size", [2, 3])


def integers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Small integers of this rank's own, so that sums have one result in every order."""
    generator = torch.Generator().manual_seed(101 * dist.get_rank() + seed)
    return torch.randint(-5, 6, shape, generator=generator).to(dtype)


def uneven_splits() -> list[int]:
    """How many rows this rank and each other exchange: as many both ways."""
    return [dist.get_rank() + other for other in range(dist.get_world_size())]


def all_reduce(group: dist.ProcessGroup) -> list[torch.Tensor]:
    return [
        functional.all_reduce(integers(5, 3, dtype=dtype), op, group)
        for op in ("sum", "max", "product")
        for dtype in (torch.float32, torch.int64)
    ]


def all_reduce_coalesced(group: dist.ProcessGroup) -> list[torch.Tensor]:
    inputs = [integers(5), integers(0, 3), integers(7, 11).t()]
    return functional.all_reduce_coalesced(inputs, "sum", group)


def all_gather(group: dist.ProcessGroup) -> list[torch.Tensor]:
    along_rows = torch_features.all_gather_single(integers(4, 3), 0, group)
    along_columns = torch_features.all_gather_single(integers(4, 3, dtype=torch.uint8), 1, group)
    return [along_rows, along_columns]


def all_gather_coalesced(group: dist.ProcessGroup) -> list[torch.Tensor]:
    return torch_features.all_gather_single_coalesced([integers(4, 3), integers(1)], group)


def reduce_scatter(group: dist.ProcessGroup) -> list[torch.Tensor]:
    size = dist.get_world_size()
    reduction = "max" if torch_features.GLOO_REDUCES_SCATTERED else "sum"
    along_rows = torch_features.reduce_scatter_single(integers(2 * size, 3), "sum", 0, group)
    along_columns = torch_features.reduce_scatter_single(integers(3, 4 * size), reduction, 1, group)
    return [along_rows, along_columns]


def reduce_scatter_coalesced(group: dist.ProcessGroup) -> list[torch.Tensor]:
    size = dist.get_world_size()
    inputs = [integers(2 * size, 3), integers(3, size)]
    return torch_features.reduce_scatter_single_coalesced(inputs, "sum", [0, 1], group)


def all_to_all_single(group: dist.ProcessGroup) -> list[torch.Tensor]:
    splits = uneven_splits()
    uneven = functional.all_to_all_single(integers(sum(splits), 3), splits, splits, group)
    even = functional.all_to_all_single(integers(2 * len(splits)), None, None, group)
    return [uneven, even]


def broadcast(group: dist.ProcessGroup) -> list[torch.Tensor]:
    return [functional.broadcast(integers(9), dist.get_world_size() - 1, group)]


def permute_tensor(group: dist.ProcessGroup) -> list[torch.Tensor]:
    size = dist.get_world_size()
    return [
        functional.permute_tensor(integers(6), [(one + 1) % size for one in range(size)], group)
    ]


CASES = (
    all_reduce,
    all_reduce_coalesced,
    all_gather,
    all_gather_coalesced,
    reduce_scatter,
    reduce_scatter_coalesced,
    all_to_all_single,
    broadcast,
    permute_tensor,
)


def check_eager(name: str) -> None:
    case = next(case for case in CASES if case.__name__ == name)
    assert_like_gloo(lambda group: [one * 1 for one in case(group)])  # a use waits for the result


@pytest.mark.quick
@pytest.mark.lossy
@sizes
@pytest.mark.parametrize("name", [case.__name__ for case in CASES])
def test_eager(shared_pool, size: int, name: str) -> None:
    shared_pool(size).run(check_eager, name)


def check_many_pending() -> None:
    """Results are used in an order of their own, some never."""
    rank, size = dist.get_rank(), dist.get_world_size()
    pending = [
        functional.all_reduce(
            torch.full((2000 * turn + 1,), 1.0 * rank + turn), "sum", dist.group.WORLD
        )
        for turn in range(12)
    ]
    assert all(isinstance(one, functional.AsyncCollectiveTensor) for one in pending)
    for turn in (11, 0, 5, 4, 3, 9):
        expected = torch.full((2000 * turn + 1,), 1.0 * sum(range(size)) + turn * size)
        assert_same(functional.wait_tensor(pending[turn]), expected, turn)
    waited = functional.wait_tensor(pending[11])  # a second time
    assert waited[0] == sum(range(size)) + 11 * size


@pytest.mark.quick
@pytest.mark.lossy
@sizes
def test_many_pending(shared_pool, size: int) -> None:
    shared_pool(size).run(check_many_pending)


def gradients(group: dist.ProcessGroup) -> list[torch.Tensor]:
    """Every collective that torch can differentiate, each weighed by rank."""
    size = dist.get_world_size()
    splits = uneven_splits()
    leaves = [
        integers(sum(splits) if index == 3 else 2 * size, 3, seed=index) for index in range(5)
    ]
    for leaf in leaves:
        leaf.requires_grad_()
    results = [
        functional.all_reduce(leaves[0], "sum", group),
        torch_features.all_gather_single_autograd(leaves[1], 0, group),
        torch_features.reduce_scatter_single_autograd(leaves[2], "sum", 0, group),
        functional.all_to_all_single_autograd(leaves[3], splits, splits, group),
        *functional.all_reduce_coalesced([leaves[4]], "sum", group),
    ]
    sum(
        (result * (10 * index + dist.get_rank() + 1)).sum() for index, result in enumerate(results)
    ).backward()
    return [leaf.grad for leaf in leaves]


def check_gradients() -> None:
    assert_like_gloo(gradients)


@pytest.mark.quick
@pytest.mark.lossy
@sizes
def test_gradients(shared_pool, size: int) -> None:
    shared_pool(size).run(check_gradients)


def model(inputs: torch.Tensor, weight: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    """A sharded layer: gathers its input, computes, scatters the sum; with dist's own calls too."""
    gathered = torch_features.all_gather_single_autograd(inputs, 0, group)
    hidden = (gathered @ weight).relu()
    scattered = torch_features.reduce_scatter_single_autograd(hidden, "sum", 0, group)
    swapped = functional.all_to_all_single_autograd(scattered, None, None, group)
    total = torch.tensor(1.0, dtype=torch.float64) * swapped.detach().sum()
    dist.all_reduce(total, group=group)  # in place: the compiler makes it a functional one
    return swapped * total


def train(call: Callable, group: dist.ProcessGroup, rows: int) -> list[torch.Tensor]:
    size = dist.get_world_size()
    inputs = integers(rows * size, 4).requires_grad_()
    weight = integers(4, 4, seed=1).requires_grad_()
    output = call(inputs, weight, group)
    output.sum().backward()
    return [output.detach(), inputs.grad, weight.grad]


def check_compiled() -> None:
    """One graph, forward and backward; and one graph for every number of rows."""
    for dynamic, all_rows in ((False, (3,)), (True, (3, 5, 7))):
        torch._dynamo.reset()
        counter = CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(model, backend=counter, fullgraph=True, dynamic=dynamic)
        for rows in all_rows:
            actual = train(compiled, dist.group.WORLD, rows)
            expected = train(model, dist.group.WORLD, rows)
            torch.testing.assert_close(actual, expected, rtol=0, atol=0)
        assert counter.frame_count == 1


@torch_features.needs_generated_gradients
@pytest.mark.quick
@sizes
def test_compiled(shared_pool, size: int) -> None:
    shared_pool(size).run(check_compiled)


def check_inductor(cache: str) -> None:
    """Generated C++ code; forward only, because a compiler run takes seconds."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
    with torch.no_grad():
        inputs, weight = integers(2 * dist.get_world_size(), 4), integers(4, 4, seed=1)
        compiled = torch.compile(model, backend="inductor", fullgraph=True, dynamic=False)
        actual = compiled(inputs, weight, dist.group.WORLD)
        expected = model(inputs, weight, dist.group.WORLD)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


@pytest.mark.skipif(not shutil.which("g++"), reason="inductor needs g++")
def test_inductor(own_pool, tmp_path) -> None:
    with own_pool(2, timeout_s=400.0) as pool:
        pool.run(check_inductor, str(tmp_path), limit_s=450)
