# SPDX-License-Identifier: Apache-2.0
"""Groups with an accelerator's tensors that fail while copies are under way."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist


def abort_in_the_middle(group: dist.ProcessGroup, tensor: torch.Tensor) -> None:
    """Called by all ranks of the group, some of whose copies are held."""
    work = dist.all_reduce(tensor, group=group, async_op=True)
    assert work is not None
    dist.barrier()
    group._get_backend(tensor.device).abort()
    with pytest.raises(dist.DistBackendError, match="aborted"):
        work.wait()
