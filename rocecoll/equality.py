# SPDX-License-Identifier: Apache-2.0
"""check_equal(): whether the ranks of a group have the same bits, and which differ where."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_group

from rocecoll.rendezvous.records import spans

DIGEST_BYTES = 16
_SHOWN = 8  # tensors in a message


@dataclass(frozen=True)
class Difference:
    """`ranks`, of the group, that have something else than most ranks in the tensor of this name."""

    tensor: str
    ranks: tuple[int, ...]


class UnequalError(RuntimeError):
    """`differences` has all of them, the message the first ones."""

    def __init__(self, message: str, differences: Sequence[Difference]) -> None:
        super().__init__(message)
        self.differences = tuple(differences)


def check_equal(
    tensors: Iterable[torch.Tensor] | Mapping[str, torch.Tensor],
    group: dist.ProcessGroup | None = None,
) -> None:
    named = tensors if isinstance(tensors, Mapping) else dict(enumerate(tensors))
    own = {str(name): _digest(tensor) for name, tensor in named.items()}
    whole = hashlib.blake2b(repr(sorted(own.items())).encode(), digest_size=DIGEST_BYTES).digest()
    if len(set(_gather(whole, group))) == 1:
        return
    told: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(told, own, group)
    found = differences(told)
    shown = "; ".join(_tell(one, told) for one in found[:_SHOWN])
    more = f"; and {len(found) - _SHOWN} more tensors" if len(found) > _SHOWN else ""
    raise UnequalError(f"check_equal: {shown}{more}", found)


def differences(told: Sequence[Mapping[str, bytes]]) -> list[Difference]:
    """Of the digests by name of each rank. Of as many ranks each, the lowest rank's is the usual one."""
    names = dict.fromkeys(name for digests in told for name in digests)
    found = []
    for name in names:
        digests = [of_rank.get(name) for of_rank in told]
        [(usual, _)] = Counter(digests).most_common(1)
        if ranks := tuple(rank for rank, one in enumerate(digests) if one != usual):
            found.append(Difference(name, ranks))
    return found


def _tell(one: Difference, told: Sequence[Mapping[str, bytes]]) -> str:
    missing = [rank for rank, digests in enumerate(told) if one.tensor not in digests]
    without = f", which {_ranks(missing)} lack{'' if len(missing) > 1 else 's'}" if missing else ""
    return f"tensor {one.tensor} differs on {_ranks(one.ranks)} of {len(told)}{without}"


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {spans(ranks)}"


def _digest(tensor: torch.Tensor) -> bytes:
    """Of its bits, dtype and shape."""
    if tensor.layout != torch.strided:
        raise ValueError(f"check_equal: tensors must be dense, got {tensor.layout}")
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
    flat = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    in_memory: Any = flat.view(torch.uint8).numpy()
    digest.update(in_memory)
    return digest.digest()


def _gather(digest: bytes, group: dist.ProcessGroup | None) -> list[bytes]:
    """That of each rank, by a collective of a tensor on a device that the group serves."""
    kinds = (group or _get_default_group())._device_types
    device = torch.device("cpu") if torch.device("cpu") in kinds else kinds[0]
    own = torch.tensor(list(digest), dtype=torch.uint8, device=device)
    all_digests = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(all_digests, own, group=group)
    return [bytes(one.tolist()) for one in all_digests]
