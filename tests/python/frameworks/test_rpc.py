# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.rpc beside a group: neither takes anything from the other."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from exact import assert_same
from reference import assert_close
from torch import nn
from torch.distributed import autograd, rpc
from torch.nn.parallel import DistributedDataParallel

pytestmark = pytest.mark.quick


def name_of(rank: int) -> str:
    return f"worker{rank}"


def begin(rendezvous: str) -> None:
    rpc.init_rpc(
        name_of(dist.get_rank()),
        rank=dist.get_rank(),
        world_size=dist.get_world_size(),
        rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
            init_method=f"file://{rendezvous}", rpc_timeout=200
        ),
    )


def scale(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    return tensor * factor


def sum_over_ranks(value: float) -> float:
    """A collective in one of RPC's own threads."""
    tensor = torch.full((1000,), value)
    dist.all_reduce(tensor)
    return tensor[0].item()


def check_side_by_side(rendezvous: str) -> None:
    begin(rendezvous)
    rank, size = dist.get_rank(), dist.get_world_size()
    peer = name_of((rank + 1) % size)
    totals = [torch.full((30_000,), 1.0 * rank + turn) for turn in range(10)]
    works = [dist.all_reduce(total, async_op=True) for total in totals]
    calls = [rpc.rpc_async(peer, scale, (torch.ones(5000), turn)) for turn in range(10)]
    reference = rpc.remote(peer, scale, (torch.arange(4.0), rank + 1.0))
    for turn in range(10):
        assert_same(calls[turn].wait(), torch.full((5000,), 1.0 * turn), turn)
        works[turn].wait()
        assert (totals[turn] == sum(range(size)) + turn * size).all()
    assert_same(reference.to_here(), torch.arange(4.0) * (rank + 1), "reference")
    dist.barrier()  # nobody has a collective pending, and each rank's comes from another
    assert rpc.rpc_sync(peer, sum_over_ranks, (rank + 1.0,)) == sum(range(1, size + 1))
    rpc.shutdown()
    assert sum_over_ranks(2.0) == 2.0 * size


@pytest.mark.lossy
@pytest.mark.parametrize("size", [2, 3])
def test_side_by_side(own_pool, tmp_path, size: int) -> None:
    with own_pool(size) as pool:
        pool.run(check_side_by_side, str(tmp_path / "rpc"))


def embed(rows: torch.Tensor) -> torch.Tensor:
    """The part of the model that lives on rank 0."""
    if not hasattr(embed, "table"):
        embed.table = nn.Parameter(torch.arange(12, dtype=torch.float64).reshape(4, 3))
    return embed.table[rows]


def check_parameter_server(rendezvous: str) -> None:
    """An embedding reached by RPC in front of a DDP model, in one distributed backward pass."""
    begin(rendezvous)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    layer = nn.Linear(3, 2, bias=False).double()
    model = DistributedDataParallel(layer)
    with autograd.context() as context:
        rows = rpc.rpc_sync(name_of(0), embed, (torch.tensor([rank, 3]),))
        loss = model(rows).sum() * (rank + 1)
        autograd.backward(context, [loss])
        gradient = autograd.get_gradients(context)[layer.weight]
    table = torch.arange(12, dtype=torch.float64).reshape(4, 3)
    expected = sum((table[one] + table[3]) * (one + 1) for one in range(size)) / size
    assert_close(gradient, expected.expand(2, 3), 1e-12)
    rpc.shutdown()


@pytest.mark.parametrize("size", [2, 3])
def test_parameter_server(own_pool, tmp_path, size: int) -> None:
    with own_pool(size) as pool:
        pool.run(check_parameter_server, str(tmp_path / "rpc"))
