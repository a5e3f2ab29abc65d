# SPDX-License-Identifier: Apache-2.0
"""What older torches lack or call by another name: for tests that run with each of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh

needs_split_group = pytest.mark.skipif(
    not hasattr(dist.ProcessGroup, "split_group"), reason="before torch 2.9 no group splits itself"
)
needs_object_batches = pytest.mark.skipif(
    "use_batch" not in inspect.signature(dist.send_object_list).parameters,
    reason="before torch 2.9 objects are not sent in a batch",
)
needs_tensors_of_groups = pytest.mark.skipif(
    torch.__version__ < "2.9",
    reason="before torch 2.9 no module's memory comes from its group",
)
needs_backends_of_meshes = pytest.mark.skipif(
    "backend_override" not in inspect.signature(init_device_mesh).parameters,
    reason="before torch 2.9 a mesh has one backend",
)
# Such a call has no work to wait for, which those releases treat as an error.
needs_calls_in_batches = pytest.mark.skipif(
    torch.__version__ < "2.8", reason="before torch 2.8 a batch takes no broadcast that waits"
)
needs_generated_gradients = pytest.mark.skipif(
    torch.__version__ < "2.9", reason="before torch 2.9 all_to_all's gradient is not compiled"
)
# Earlier releases add, whatever the reduction is.
GLOO_REDUCES_SCATTERED = torch.__version__ >= "2.9"
GLOO_HAS_REDUCE_SCATTER = torch.__version__ >= "2.8"
# Earlier releases sort a group's ranks.
needs_ordered_groups = pytest.mark.skipif(
    "sort_ranks" not in inspect.signature(dist.new_group).parameters,
    reason="before torch 2.12 the ranks of a group are sorted",
)
HAS_SHRINK = hasattr(dist, "shrink_group")
needs_shrink = pytest.mark.skipif(not HAS_SHRINK, reason="before torch 2.10 no group shrinks")
GLOO_HAS_ALL_TO_ALL = torch.__version__ >= "2.12"


def _named(name: str, before: str) -> Callable[..., Any]:
    """A functional collective by its name of torch 2.13 and later, else by the one of before."""
    return getattr(functional, name if hasattr(functional, name) else before)


all_gather_single = _named("all_gather_single", "all_gather_tensor")
all_gather_single_autograd = _named("all_gather_single_autograd", "all_gather_tensor_autograd")
all_gather_single_coalesced = _named(
    "all_gather_single_coalesced", "all_gather_into_tensor_coalesced"
)
reduce_scatter_single = _named("reduce_scatter_single", "reduce_scatter_tensor")
reduce_scatter_single_autograd = _named(
    "reduce_scatter_single_autograd", "reduce_scatter_tensor_autograd"
)
reduce_scatter_single_coalesced = _named(
    "reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced"
)
