# SPDX-License-Identifier: Apache-2.0
"""Bad arguments are refused with the exception and in the words that gloo's users know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch_features import GLOO_HAS_ALL_TO_ALL

pytestmark = pytest.mark.quick

Group = Any
ones = torch.ones


def rooted(options: Any, root: int, tensor: int = 0) -> Any:
    options.rootRank = root
    if hasattr(options, "rootTensor"):
        options.rootTensor = tensor
    return options


def broadcast_options(root: int, tensor: int = 0) -> Any:
    return rooted(dist.BroadcastOptions(), root, tensor)


def reduce_options(root: int, tensor: int = 0) -> Any:
    return rooted(dist.ReduceOptions(), root, tensor)


def direct(group: Group) -> Any:
    """torch's dispatcher refuses an empty list before a backend sees it."""
    return group._get_backend(torch.device("cpu"))


def sparse(size: int) -> torch.Tensor:
    return ones(size).to_sparse()


# The phrase, and the call; the group has two ranks.
CASES: list[tuple[str, str, Callable[[Group], Any]]] = [
    (
        "broadcast root too high",
        "invalid root rank",
        lambda g: g.broadcast([ones(2)], broadcast_options(2)),
    ),
    (
        "broadcast root negative",
        "invalid root rank",
        lambda g: g.broadcast([ones(2)], broadcast_options(-1)),
    ),
    (
        "broadcast root tensor",
        "invalid root tensor",
        lambda g: g.broadcast([ones(2)], broadcast_options(0, 1)),
    ),
    (
        "broadcast nothing",
        "invalid root tensor",
        lambda g: direct(g).broadcast([], broadcast_options(0)),
    ),
    (
        "broadcast types",
        "invalid tensor type",
        lambda g: g.broadcast([ones(2), ones(2).int()], broadcast_options(0)),
    ),
    (
        "broadcast sizes",
        "invalid tensor size",
        lambda g: g.broadcast([ones(2), ones(3)], broadcast_options(0)),
    ),
    (
        "broadcast layouts",
        "only supports dense tensors",
        lambda g: direct(g).broadcast([sparse(2)], broadcast_options(0)),
    ),
    ("all_reduce nothing", "requires non-empty tensor list", lambda g: direct(g).allreduce([])),
    ("all_reduce types", "invalid tensor type", lambda g: g.allreduce([ones(2), ones(2).int()])),
    ("all_reduce sizes", "invalid tensor size", lambda g: g.allreduce([ones(2), ones(3)])),
    (
        "all_reduce layouts",
        "invalid tensor layout at index 1 (expected Strided, got Sparse)",
        lambda g: direct(g).allreduce([ones(3), sparse(3)]),
    ),
    (
        "all_reduce sparse layouts",
        "invalid tensor layout at index 1 (expected Sparse, got Strided)",
        lambda g: direct(g).allreduce([sparse(3), ones(3)]),
    ),
    (
        "all_reduce sparse sizes",
        "invalid tensor size at index ",
        lambda g: g.allreduce([sparse(3), sparse(4)]),
    ),
    (
        "all_reduce sparse with MAX",
        "unsupported reduction operation",
        lambda g: g.allreduce([sparse(3)], dist.ReduceOp.MAX),
    ),
    (
        "all_reduce_coalesced nothing",
        "requires non-empty tensor list",
        lambda g: direct(g).allreduce_coalesced([], dist.AllreduceCoalescedOptions()),
    ),
    (
        "all_reduce_coalesced types",
        "tensors must all have the same type",
        lambda g: g.allreduce_coalesced([ones(2), ones(2).int()], dist.AllreduceCoalescedOptions()),
    ),
    (
        "all_reduce_coalesced layouts",
        "invalid tensor layout at index 1 (expected Strided, got Sparse)",
        lambda g: direct(g).allreduce_coalesced(
            [ones(2), sparse(2)], dist.AllreduceCoalescedOptions()
        ),
    ),
    (
        "all_reduce_coalesced sparse",
        "unsupported layout",
        lambda g: direct(g).allreduce_coalesced(
            [sparse(2), sparse(2)], dist.AllreduceCoalescedOptions()
        ),
    ),
    (
        "reduce root",
        "invalid root rank",
        lambda g: g.reduce([ones(2)], reduce_options(2)),
    ),
    (
        "reduce root tensor",
        "invalid root tensor",
        lambda g: g.reduce([ones(2)], reduce_options(0, 1)),
    ),
    (
        "reduce two tensors",
        "requires a single-element tensor list",
        lambda g: g.reduce([ones(2), ones(2)], reduce_options(0)),
    ),
    (
        "all_gather nothing",
        "requires non-empty input tensor list",
        lambda g: direct(g).allgather([], []),
    ),
    (
        "all_gather lists",
        "requires input/output tensor lists to have the same length",
        lambda g: g.allgather([[ones(2)] * 2] * 2, [ones(2)]),
    ),
    (
        "all_gather outputs",
        "invalid output tensor list",
        lambda g: g.allgather([[ones(2)] * 3], [ones(2)]),
    ),
    (
        "all_gather second outputs",
        "invalid output tensor list at index 1 (expected length 4, got 2)",
        lambda g: g.allgather([[ones(2)] * 4, [ones(2)] * 2], [ones(2)] * 2),
    ),
    (
        "all_gather input types",
        "invalid tensor type at index 1",
        lambda g: g.allgather([[ones(2)] * 4] * 2, [ones(2), ones(2).int()]),
    ),
    (
        "all_gather input sizes",
        "invalid tensor size at index 1 (expected ",
        lambda g: g.allgather([[ones(2)] * 4] * 2, [ones(2), ones(3)]),
    ),
    (
        "all_gather types",
        "invalid tensor type",
        lambda g: g.allgather([[ones(2), ones(2).int()]], [ones(2)]),
    ),
    (
        "all_gather sizes",
        "invalid tensor size",
        lambda g: g.allgather([[ones(3), ones(3)]], [ones(2)]),
    ),
    (
        "all_gather lists of different sizes",
        "invalid tensor size at index ",
        lambda g: g.allgather(
            [
                [ones(2)] * 4,
                [ones(3) if one // 2 != dist.get_rank(g) else ones(2) for one in range(4)],
            ],
            [ones(2)] * 2,
        ),
    ),
    (
        "all_gather_coalesced nothing",
        "requires non-empty input tensor list",
        lambda g: direct(g).allgather_coalesced([], []),
    ),
    (
        "all_gather_coalesced lists",
        "output lists should be equal to world size",
        lambda g: g.allgather_coalesced([[ones(2)]], [ones(2)]),
    ),
    (
        "all_gather_coalesced sizes",
        "invalid output size",
        lambda g: g.allgather_coalesced([[ones(2)], []], [ones(2)]),
    ),
    (
        "all_gather_coalesced output sizes",
        "invalid size of output tensor at index 1 (expected length ",
        lambda g: direct(g).allgather_coalesced([[ones(2)] * 2] * 2, [ones(2), ones(3)]),
    ),
    (
        "all_gather_coalesced output types",
        "invalid tensor type at index 0 (expected ",
        lambda g: direct(g).allgather_coalesced([[ones(2).int()]] * 2, [ones(2)]),
    ),
    (
        "gather root",
        "invalid root rank",
        lambda g: g.gather([[ones(2)] * 2], [ones(2)], rooted(dist.GatherOptions(), 2)),
    ),
    (
        "gather two inputs",
        "requires a single-element input tensor list",
        lambda g: g.gather([], [ones(2)] * 2, rooted(dist.GatherOptions(), 0)),
    ),
    (
        "gather nothing",
        "requires a single-element input tensor list",
        lambda g: direct(g).gather([], [], rooted(dist.GatherOptions(), 0)),
    ),
    (
        "gather to other ranks",
        "requires empty output on non-root",
        lambda g: g.gather([[ones(2)] * 2], [ones(2)], rooted(dist.GatherOptions(), 1 - g.rank())),
    ),
    (
        "gather outputs",
        "requires a single-element output list",
        lambda g: g.gather([], [ones(2)], rooted(dist.GatherOptions(), g.rank())),
    ),
    (
        "gather number of outputs",
        "Incorrect output list size 3. Output list size should be 2, same as size of the process",
        lambda g: g.gather([[ones(2)] * 3], [ones(2)], rooted(dist.GatherOptions(), g.rank())),
    ),
    (
        "gather output types",
        "invalid tensor type",
        lambda g: g.gather(
            [[ones(2), ones(2).int()]], [ones(2)], rooted(dist.GatherOptions(), g.rank())
        ),
    ),
    (
        "scatter root",
        "invalid root rank",
        lambda g: g.scatter([ones(2)], [[ones(2)] * 2], rooted(dist.ScatterOptions(), 2)),
    ),
    (
        "scatter two outputs",
        "requires a single-element output tensor list",
        lambda g: g.scatter([ones(2)] * 2, [], rooted(dist.ScatterOptions(), 0)),
    ),
    (
        "scatter nothing",
        "requires a single-element output tensor list",
        lambda g: direct(g).scatter([], [], rooted(dist.ScatterOptions(), 0)),
    ),
    (
        "scatter from other ranks",
        "requires empty input on non-root",
        lambda g: g.scatter(
            [ones(2)], [[ones(2)] * 2], rooted(dist.ScatterOptions(), 1 - g.rank())
        ),
    ),
    (
        "scatter inputs",
        "requires a single-element input list",
        lambda g: g.scatter([ones(2)], [], rooted(dist.ScatterOptions(), g.rank())),
    ),
    (
        "scatter number of inputs",
        "Incorrect input list size 1. Input list size should be 2, same as size of the process",
        lambda g: g.scatter([ones(2)], [[ones(2)]], rooted(dist.ScatterOptions(), g.rank())),
    ),
    (
        "scatter input sizes",
        "invalid tensor size",
        lambda g: g.scatter(
            [ones(2)], [[ones(2), ones(3)]], rooted(dist.ScatterOptions(), g.rank())
        ),
    ),
    (
        "all_to_all inputs",
        "input tensor list size 1 does not match world size 2",
        lambda g: g.alltoall([ones(2)] * 2, [ones(2)]),
    ),
    (
        "all_to_all outputs",
        "output tensor list size 3 does not match world size 2",
        lambda g: g.alltoall([ones(2)] * 3, [ones(2)] * 2),
    ),
    (
        "all_to_all splits",
        "Split sizes doesn't match total dim 0 size",
        lambda g: g.alltoall_base(ones(4), ones(4), [2, 2], [1, 2]).wait(),
    ),
    (
        "all_to_all number of splits",
        "Number of tensor splits not equal to group size",
        lambda g: g.alltoall_base(ones(4), ones(4), [2, 2], [4]).wait(),
    ),
    ("send two", "takes a single tensor", lambda g: g.send([ones(2)] * 2, 1 - g.rank(), 0)),
    ("recv two", "takes a single tensor", lambda g: g.recv([ones(2)] * 2, 1 - g.rank(), 0)),
    ("send tag", "Tag must be nonnegative", lambda g: g.send([ones(2)], 1 - g.rank(), -1)),
    ("recv tag", "Tag must be nonnegative", lambda g: g.recv([ones(2)], 1 - g.rank(), -1)),
]


def refusals() -> list[list[tuple[str, str]]]:
    """What gloo and we make of each bad call: name of the exception's class, and its text."""
    groups = [
        dist.new_group(backend="gloo"),
        dist.distributed_c10d._get_default_group(),
    ]
    dist.barrier()  # gloo's new group may still be connecting elsewhere
    found: list[list[tuple[str, str]]] = []
    for _, _, call in CASES:
        found.append([])
        for group in groups:
            try:
                call(group)
                found[-1].append(("nothing", ""))
            except Exception as error:
                found[-1].append((type(error).__name__, str(error).splitlines()[0]))
    dist.barrier()
    dist.destroy_process_group(groups[0])
    return found


def test_same_words(shared_pool) -> None:
    for found in shared_pool(2).run(refusals):
        for (name, phrase, _), (theirs, ours) in zip(CASES, found, strict=True):
            if not GLOO_HAS_ALL_TO_ALL and theirs[1] == "Backend gloo does not support alltoall":
                theirs = ours
            assert ours[0] == theirs[0], (name, ours, theirs)
            assert phrase in theirs[1], (name, theirs)
            assert phrase in ours[1], (name, ours)


def splits_beyond_all_numbers() -> None:
    """Their sum is that of the rows only because it has overflowed."""
    group, longest = dist.distributed_c10d._get_default_group(), 2**63 - 1
    splits, rows = [longest, longest, 5], torch.zeros(3, dtype=torch.uint8)
    for ours in ((splits, splits), ([1, 1, 1], splits), (splits, [1, 1, 1])):
        with pytest.raises(RuntimeError, match="Split sizes doesn't match total dim 0 size"):
            group.alltoall_base(rows.clone(), rows, *ours)


def test_splits_beyond_all_numbers(shared_pool) -> None:
    shared_pool(3).run(splits_beyond_all_numbers)
