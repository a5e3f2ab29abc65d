# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel's communication hooks: torch's own, and some that call back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from reference import assert_close, assert_like_gloo, weights
from test_ddp import BUCKET_MB, ROUNDING, batch, mlp, own_batches, train
from torch.distributed.algorithms.ddp_comm_hooks import (
    debugging_hooks,
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
)
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.nn.parallel import DistributedDataParallel

pytestmark = pytest.mark.lossy

TURNS = 4
Group = dist.ProcessGroup
Future = torch.futures.Future
Hook = Callable[..., Any]  # whose own annotations DDP would compare with classes, not with strings


def trained(group: Group, state: Any, hook: Hook, bucket_mb: float) -> list:
    model = DistributedDataParallel(
        mlp(torch.float32), process_group=group, bucket_cap_mb=bucket_mb
    )
    model.register_comm_hook(state, hook)
    train(model, [inputs.float() for inputs in own_batches(TURNS)])
    return weights(model)


def compressing(group: Group, hook: Hook) -> list[torch.Tensor]:
    return trained(group, group, hook, BUCKET_MB)


def bf16(group: Group, bucket):  # DDP refuses this hook for CPUs by its name
    return default_hooks.bf16_compress_hook(group, bucket)


@pytest.mark.quick
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(
    "hook, tolerance",
    [
        (default_hooks.allreduce_hook, 1e-6),
        (default_hooks.fp16_compress_hook, 1e-3),
        (bf16, 1e-2),
    ],
    ids=["none", "fp16", "bf16"],
)
def test_compression(shared_pool, size: int, hook: Hook, tolerance: float) -> None:
    shared_pool(size).run(assert_like_gloo, compressing, tolerance, hook)


def approximating(group: Group, half: bool) -> list[torch.Tensor]:
    """PowerSGD calls its all-reduces from the callbacks of its all-reduces. They have an order only
    within a bucket, so there is one bucket: on a CPU this holds for every backend."""
    state = powerSGD_hook.PowerSGDState(
        group, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=1
    )
    hook = powerSGD_hook.powerSGD_hook
    hook = default_hooks.fp16_compress_wrapper(hook) if half else hook
    results = trained(group, state, hook, bucket_mb=25)
    assert state.iter > state.start_powerSGD_iter  # it did approximate
    return results


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("half", [False, True], ids=["f32", "fp16"])
def test_power_sgd(shared_pool, size: int, half: bool) -> None:
    # The approximation turns with its input's last bits, which three ranks may add in any order.
    shared_pool(size).run(assert_like_gloo, approximating, 2e-3, half)


def built_in(group: Group, name: str) -> list[torch.Tensor]:
    model = DistributedDataParallel(
        mlp(torch.float32), process_group=group, bucket_cap_mb=BUCKET_MB
    )
    model._register_builtin_comm_hook(getattr(dist.BuiltinCommHookType, name))
    train(model, [inputs.float() for inputs in own_batches(TURNS)])
    return weights(model)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name, tolerance", [("ALLREDUCE", 1e-6), ("FP16_COMPRESS", 1e-3)])
def test_built_in(shared_pool, size: int, name: str, tolerance: float) -> None:
    shared_pool(size).run(assert_like_gloo, built_in, tolerance, name)


def local_sgd(group: Group) -> list[torch.Tensor]:
    """Each rank trains alone from turn 3 on; weights are averaged after every second turn."""
    model = DistributedDataParallel(mlp(), process_group=group)
    alone = dist.new_subgroups(group_size=1, group=group, backend=dist.get_backend(group))[0]
    model.register_comm_hook(
        post_localSGD_hook.PostLocalSGDState(group, alone, start_localSGD_iter=2),
        post_localSGD_hook.post_localSGD_hook,
    )
    optimizer = PostLocalSGDOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1),
        PeriodicModelAverager(period=2, warmup_steps=2, process_group=group),
    )
    for inputs in own_batches(7):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group(alone)
    return weights(model)


@pytest.mark.parametrize("size", [2, 3])
def test_post_local_sgd(shared_pool, size: int) -> None:
    shared_pool(size).run(assert_like_gloo, local_sgd, ROUNDING)


def check_no_communication() -> None:
    """A hook that sends nothing: each rank trains alone."""
    model = DistributedDataParallel(mlp())
    model.register_comm_hook(None, debugging_hooks.noop_hook)
    train(model, own_batches(TURNS))
    alone = mlp()
    train(alone, own_batches(TURNS))
    assert_close(weights(model), weights(alone), 0.0)


def test_no_communication(shared_pool) -> None:
    shared_pool(2).run(check_no_communication)


class Chain:
    """A hook of several collectives, each called from the callback of the one before, and each
    bucket's in a group of its own: what callbacks start has an order only within a bucket."""

    def __init__(self, buckets: int) -> None:
        self.groups = [dist.new_group() for _ in range(buckets)]
        self.finished = 0

    def reduce(self, _: object, bucket):
        group = self.groups[bucket.index()]
        gradient = bucket.buffer()
        largest = gradient.abs().max()

        def scale(reduced: Future[list[torch.Tensor]]) -> torch.Tensor:
            """A blocking collective, and one that another callback waits for."""
            scaled = gradient / reduced.value()[0]
            dist.all_reduce(scaled, group=group)
            work = dist.all_reduce(gradient.new_ones(3), group=group, async_op=True)
            ranks = work.get_future().then(lambda future: future.value()[0][0]).wait()
            return scaled / ranks

        def restore(scaled: Future[torch.Tensor]) -> torch.Tensor:
            work = dist.all_reduce(largest.clone(), dist.ReduceOp.MAX, group=group, async_op=True)
            work.wait()
            self.finished += 1
            return scaled.value() * largest

        started = dist.all_reduce(largest, dist.ReduceOp.MAX, group=group, async_op=True)
        return started.get_future().then(scale).then(restore)


def check_chain() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(mlp(), bucket_cap_mb=BUCKET_MB)
    chain = Chain(buckets=6)
    model.register_comm_hook(None, chain.reduce)
    train(model, own_batches(TURNS))
    assert chain.finished >= 3 * (TURNS - 1)
    alone = mlp()
    train(alone, [torch.cat([batch(one, turn) for one in range(size)]) for turn in range(TURNS)])
    assert_close(weights(model), weights(alone), 1e-11)
    dist.barrier()
    for group in chain.groups:
        dist.destroy_process_group(group)
    assert rank == dist.get_rank()


@pytest.mark.parametrize("size", [2, 3])
def test_callbacks_that_communicate(shared_pool, size: int) -> None:
    shared_pool(size).run(check_chain)


def check_error_in_hook() -> None:
    """What a hook's callback raises reaches the caller of backward(); the group stays usable."""
    model = DistributedDataParallel(mlp())

    def hook(_: object, bucket):
        def refuse(_: object) -> torch.Tensor:
            raise ArithmeticError("no such gradient")

        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(refuse)

    model.register_comm_hook(None, hook)
    with pytest.raises(Exception, match="no such gradient"):
        train(model, own_batches(1))
    total = torch.ones(1)
    dist.all_reduce(total)
    assert total.item() == dist.get_world_size()


def test_error_in_callback(shared_pool) -> None:
    shared_pool(2).run(check_error_in_hook)
