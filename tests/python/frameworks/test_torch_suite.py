# SPDX-License-Identifier: Apache-2.0
"""A part of PyTorch's own tests, chosen to reach most code; ./scripts/torch_suite runs all."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from conformance.controller import Setup, Status, Suite

# Of tests that differ only in the operator, group or profiler, one.
GLOO = (
    "test_Backend_enum_class",
    "test_DistributedDataParallelCPU",
    "test_DistributedDataParallelCPU_grad_is_view",
    "test_accumulate_gradients_no_sync",
    "test_accumulate_gradients_no_sync_allreduce_with_then_hook",
    "test_all_gather",
    "test_all_gather_coalesced_with_empty",
    "test_all_gather_complex",
    "test_all_gather_object_subgroup",
    "test_all_reduce_coalesced_full_group_max",
    "test_all_reduce_coalesced_max_complex_unsupported",
    "test_all_reduce_coalesced_sum",
    "test_all_reduce_complex_unsupported_ops",
    "test_all_reduce_full_group_product",
    "test_all_reduce_sum_async",
    "test_all_reduce_sum_complex",
    "test_barrier_full_group",
    "test_barrier_timeout_full_group",
    "test_barrier_timeout_global",
    "test_batch_isend_irecv_gloo",
    "test_batch_isend_irecv_gloo_tags",
    "test_broadcast",
    "test_ddp_create_graph",
    "test_destroy_group",
    "test_gather",
    "test_gather_checks",
    "test_get_future",
    "test_get_rank_size_group",
    "test_grads_same_across_ranks_with_no_sync",
    "test_irecv",
    "test_isend_autograd_profiler",
    "test_monitored_barrier_gloo",
    "test_monitored_barrier_gloo_rank_0_timeout",
    "test_monitored_barrier_gloo_subgroup",
    "test_reduce_min",
    "test_reduce_sum_twice",
    "test_scatter_checks",
    "test_scatter_complex",
    "test_scatter_object_list",
    "test_send_recv",
    "test_send_recv_torch_profiler",
    "test_send_recv_with_tag_autograd_profiler",
    "test_static_graph_api_cpu",
)
# gloo fails the first two: their lists are uneven.
MPI = (
    "test_all_to_all",
    "test_all_to_all_complex",
    "test_all_to_all_single_unequal_split_full_group",
)


def open_suite(gate: str, backend: str, directory: Path) -> Iterator[Suite]:
    with (
        (directory / "output").open("wb", buffering=0) as log,
        Suite(Setup(backend, gate, limit_s=200, grace_s=60.0), log) as suite,
    ):
        yield suite


@pytest.fixture(scope="module")
def gloos(backend: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    yield from open_suite("gloo", backend, tmp_path_factory.mktemp("gloo"))


@pytest.fixture(scope="module")
def mpis(backend: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    yield from open_suite("mpi", backend, tmp_path_factory.mktemp("mpi"))


@pytest.mark.parametrize("name", GLOO)
def test_that_gloo_passes(gloos: Suite, name: str) -> None:
    result = gloos.run(name)
    assert result.status is Status.passed, result.reason


@pytest.mark.parametrize("name", MPI)
def test_written_for_mpi(mpis: Suite, name: str) -> None:
    result = mpis.run(name)
    assert result.status is Status.passed, result.reason


def test_one_crash_and_one_hang_are_two_failures(backend: str, tmp_path: Path) -> None:
    with (
        (tmp_path / "output").open("wb", buffering=0) as log,
        Suite(Setup(backend, limit_s=1, grace_s=1.0), log) as suite,
    ):
        os.kill(suite.worker.process.pid, signal.SIGSTOP)
        hang = suite.run("test_get_rank")
        os.kill(suite.worker.process.pid, signal.SIGKILL)
        crash = suite.run("test_get_rank")
    assert (hang.status, hang.line) == (Status.failed, "test_get_rank: no result after 2 s")
    assert crash.status is Status.failed and "ended with status -9" in crash.line


def test_unknown_test_fails(mpis: Suite) -> None:
    result = mpis.run("test_of_nothing")
    assert result.status is Status.failed and "test_of_nothing" in result.reason
