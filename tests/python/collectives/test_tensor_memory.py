# SPDX-License-Identifier: Apache-2.0
"""Tensors in memory that the backend allocates, as FSDP2 and DDP ask for them."""

from __future__ import annotations

import copy
import gc
import mmap
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch_features
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

pytestmark = pytest.mark.quick

CPU = torch.device("cpu")
HUGE_PAGE_BYTES = 2 << 20


def backend() -> dist.Backend:
    return dist.distributed_c10d._get_default_group()._get_backend(CPU)


def advised_huge(address: int) -> bool:
    """Whether the kernel holds the advice for the mapping of this address ("hg" in VmFlags)."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split()[0]
        if "-" in first and not first.endswith(":"):
            low, high = (int(end, 16) for end in first.split("-"))
            inside = low <= address < high
        elif inside and first == "VmFlags:":
            return "hg" in line.split()
    return False


def check_tensors() -> bool:
    size = dist.get_world_size()
    assert backend().supports_tensor_alloc(CPU)
    assert not backend().supports_tensor_alloc(torch.device("cuda", 0))
    for count, dtype in ((0, torch.float32), (1, torch.uint8), (1_000_003, torch.float64)):
        tensor = backend().allocate_tensor(count, dtype=dtype, device=CPU)
        assert (tensor.shape, tensor.dtype, tensor.device) == ((count,), dtype, CPU)
        assert tensor.data_ptr() % mmap.PAGESIZE == 0
        tensor.fill_(1)
        dist.all_reduce(tensor)
        assert (tensor == size).all()
    assert tensor.data_ptr() % HUGE_PAGE_BYTES == 0
    view = tensor[5:]
    resized = backend().allocate_tensor(3, dtype=dtype, device=CPU).resize_(100).fill_(2)
    address = tensor.data_ptr()
    advised = advised_huge(address)
    del tensor
    gc.collect()
    assert view[0] == size and resized.sum() == 200  # a view keeps the memory
    with pytest.raises(RuntimeError, match="only CPU tensors"):
        backend().allocate_tensor(3, dtype=dtype, device=torch.device("meta"))
    return advised


@torch_features.needs_tensors_of_groups
def test_tensors(shared_pool) -> None:
    huge = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    expected = huge.exists()
    assert shared_pool(2).run(check_tensors) == [expected] * 2


def replace_memory_meanwhile() -> None:
    """The operation's memory stays, though nothing else holds it; freed, it would be unmapped."""
    tensor = torch.ones(16 << 20)
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 0:
        work = dist.all_reduce(tensor, async_op=True)
        tensor.set_(torch.full((3,), 7.0).untyped_storage(), 0, (3,))
        store.set("replaced", "")
        work.wait()
        assert tensor.tolist() == [7.0] * 3
    else:
        store.wait(["replaced"])
        dist.all_reduce(tensor)
        assert (tensor == dist.get_world_size()).all()


def test_a_tensor_may_get_other_memory_meanwhile(shared_pool) -> None:
    shared_pool(2).run(replace_memory_meanwhile)


def train(model: torch.nn.Module, inputs: torch.Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model(inputs).pow(2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def check_fsdp() -> None:
    """FSDP2's buffers of all_gather and reduce_scatter come from the backend."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    plain = copy.deepcopy(model)
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    model.set_allocate_memory_from_process_group_for_comm(True)
    allocated: list[int] = []
    group = model._get_fsdp_state()._fsdp_param_group._all_gather_comm
    allocate = group.allocate

    def counting(*args, **kwargs) -> torch.Tensor:
        tensor = allocate(*args, **kwargs)
        allocated.append(tensor.data_ptr() % mmap.PAGESIZE)
        return tensor

    group.allocate = counting
    inputs = torch.randn(3, 8)
    train(model, inputs)
    train(plain, inputs)
    assert allocated and not any(allocated)
    for sharded, whole in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(sharded.full_tensor(), whole)


@torch_features.needs_tensors_of_groups
@pytest.mark.parametrize("size", [2, 3])
def test_fsdp(shared_pool, size: int) -> None:
    shared_pool(size).run(check_fsdp)


def check_ddp() -> None:
    """DDP's first bucket begins at a page, as what the backend allocates does."""
    torch.manual_seed(1)
    alone = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.ReLU(), torch.nn.Linear(200, 4))
    model = copy.deepcopy(alone)
    inputs = torch.randn(3, 300)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("DDP_DISABLE_COMM_MEM", "0")
        parallel = DistributedDataParallel(model, gradient_as_bucket_view=True)
        train(parallel, inputs)  # after whose first step the buckets are made anew
    train(alone, inputs)
    for parameter, expected in zip(model.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(parameter, expected)
    parallel(inputs).sum().backward()  # gradients are views of the buckets
    starts = [parameter.grad.data_ptr() % mmap.PAGESIZE for parameter in model.parameters()]
    assert 0 in starts, starts


def test_ddp(shared_pool) -> None:
    shared_pool(2).run(check_ddp)
