# SPDX-License-Identifier: Apache-2.0
"""What is said where ranks do not come to a group: options that differ, a rank that cannot start."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from harness import Pool

from rocecoll import Options, options

pytestmark = pytest.mark.quick

OwnPool = Callable[..., AbstractContextManager[Pool]]

# For each option that must agree, a value that is not its default. The transport is one that needs
# no device.
OTHER = {
    "transport": "udp",
    "shm": "0",
    "udp_max_datagram_bytes": "1400",
    "eager_bytes": "1024",
    "lane_bytes": "8192",
    "algorithm": "all_reduce:ring,broadcast:chain",
}
WAIT_S = 200.0  # for other ranks
HERE = re.escape(socket.gethostname())


def join(path: Path, rank: int, variables: dict[str, str], **details: Any) -> None:
    with mock.patch.dict(os.environ, variables):
        dist.init_process_group(
            "rocecoll",
            init_method=f"file://{path}",
            rank=rank,
            world_size=2,
            timeout=timedelta(seconds=WAIT_S),
            **details,
        )


def error_of(path: Path, rank: int, variables: dict[str, str], **details: Any) -> str:
    with pytest.raises((RuntimeError, ValueError)) as raised:
        join(path, rank, variables, **details)
    return str(raised.value)


def check_options_that_differ(directory: Path) -> None:
    rank = dist.get_rank()
    dist.destroy_process_group()
    for name, value in OTHER.items():
        variable = options.variable(name)
        default = "1" if name == "shm" else options.table()[name].text(options.resolve()[name])
        told = (
            rf".*{variable} is '{default}' on rank 0 \({HERE}, \S+:\d+\), '{value}' on rank 1 "
            rf"\({HERE}, \S+:\d+\)\. Set {variable} alike on all ranks.*"
        )
        # udp by name would do without shared memory, which is another option.
        also = {"shm": "1"} if name == "transport" else {}
        chosen = {name: value} | also if rank == 1 else {}
        own = {options.variable(option): text for option, text in chosen.items()}
        said = error_of(directory / f"{name} by variable", rank, own)
        assert re.fullmatch(told, said), said
        by_argument = Options(**chosen) if chosen else None
        said = error_of(directory / f"{name} by argument", rank, {}, pg_options=by_argument)
        assert re.fullmatch(told, said), said


def test_options_that_differ_are_refused_by_name(own_pool: OwnPool, tmp_path: Path) -> None:
    assert set(OTHER) == {n for n, option in options.table().items() if option.must_agree}
    with own_pool(2) as pool:
        pool.run(check_options_that_differ, tmp_path)


def check_options_that_agree(directory: Path) -> None:
    """Options agree however they are set, and in whichever spelling."""
    rank = dist.get_rank()
    dist.destroy_process_group()
    if rank == 0:
        chosen = Options(
            lane_bytes=8192, shm=False, algorithm="barrier:dissemination,reduce:binomial"
        )
        join(directory / "store", rank, {}, pg_options=chosen)
    else:
        words = {
            "ROCECOLL_LANE_BYTES": " 8192",
            "ROCECOLL_SHM": "off",
            "ROCECOLL_ALGORITHM": "reduce:binomial, barrier : dissemination,",
        }
        join(directory / "store", rank, words)
    total = torch.ones(100_000)
    dist.all_reduce(total)
    assert (total == 2).all()


def test_options_may_be_said_in_different_words(own_pool: OwnPool, tmp_path: Path) -> None:
    with own_pool(2) as pool:
        pool.run(check_options_that_agree, tmp_path)


def check_a_rank_that_cannot_start(directory: Path) -> None:
    rank = dist.get_rank()
    dist.destroy_process_group()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("", 0))
        for variable, value, why in (
            ("ROCECOLL_LANE_BYTES", "many", "ROCECOLL_LANE_BYTES='many': accepted is a whole"),
            ("ROCECOLL_SOCKET_IFNAME", "nowhere0", "ROCECOLL_SOCKET_IFNAME='nowhere0'"),
            ("ROCECOLL_TRANSPORT", "rc", "rocecoll: transport rc cannot be used here"),
            ("ROCECOLL_PORT_RANGE", str(taken.getsockname()[1]), "is free: each process takes"),
        ):
            variables = {variable: value, "ROCECOLL_IB_HCA": "=no_such_device"}
            said = error_of(directory / variable, rank, variables if rank == 1 else {})
            assert why in said, said
            told = re.match(rf"rocecoll: group '\d+': rank 1 \({HERE}\) could not start: ", said)
            assert bool(told) == (rank == 0), said
    join(directory / "again", rank, {})
    dist.barrier()


def test_a_rank_that_cannot_start_is_told_to_the_others(own_pool: OwnPool, tmp_path: Path) -> None:
    """At once: all of this ends before one rank would have waited for the other."""
    with own_pool(2) as pool:
        pool.run(check_a_rank_that_cannot_start, tmp_path, limit_s=WAIT_S - 10)
