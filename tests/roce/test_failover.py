# SPDX-License-Identifier: Apache-2.0
"""RoCE goes away in the middle, or never was there for one rank: UDP carries on, or it is said."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager

import bed
import numpy as np
import pytest
from core_alone import core
from job import Job, Rank
from sums import MORE_ROUNDS, add_up_until_asked

NO_DEVICE = {"ROCECOLL_IB_HCA": "=rocecoll_no_such"}


def port_down() -> AbstractContextManager[None]:
    return bed.link_down(bed.ends()[0])


def path_gone() -> AbstractContextManager[None]:
    """RoCE's packets no longer arrive, but no device knows."""
    return bed.netem("loss 100%")


TROUBLES = {"port down": port_down, "path gone": path_gone}


def run_into(trouble: str, transport: str, **variables: str) -> Job:
    """The job is in the middle of its operations when the trouble begins, and ends in it."""
    with Job(2, add_up_until_asked, transport, variables=variables) as job:
        assert [job.told(0), job.told(1)] == ["begun", "begun"]
        with TROUBLES[trouble]():
            time.sleep(0.1)  # some rounds; whether all of them fell into it changes nothing
            job.ask()
            job.outcomes()
    return job


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("transport", ["rc", "ud", "auto"])
def test_goes_on_over_udp_with_a_warning(transport: str, trouble: str) -> None:
    job = run_into(trouble, transport)
    assert min(job.values()) > MORE_ROUNDS
    assert any(outcome.said("warning", "over UDP") for outcome in job.outcomes())


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("transport", ["rc", "ud"])
def test_fails_clearly_without_failover(transport: str, trouble: str) -> None:
    outcomes = run_into(trouble, transport, ROCECOLL_FAILOVER="0").outcomes()
    for rank, outcome in enumerate(outcomes):
        assert isinstance(outcome.error, core.Error), outcome
        print(outcome.error, outcome.log)
        assert f"rank {1 - rank}" in str(outcome.error), outcome.error
        said = [str(outcome.error)] + [text for level, text in outcome.log if level == "warning"]
        assert any("failover is" in text for text in said), said


def test_port_comes_back() -> None:
    """Links that are opened then use RoCE again."""

    def body(rank: Rank) -> int:
        data = np.ones(1000, np.int32)
        rank.group.all_reduce(data, "int32").wait()
        rank.tell("begun")
        bed.wait_until(rank.asked, "the test says that the port is up")
        group = rank.make_group(bytes(16))
        before = bed.hw_counters(rank.end.device)["rdma_sends"]
        group.all_reduce(data, "int32").wait()
        group.barrier().wait()
        assert (data == 4).all()
        sends = bed.hw_counters(rank.end.device)["rdma_sends"] - before
        group.close()
        return sends

    with Job(2, body, "rc") as job:
        assert [job.told(0), job.told(1)] == ["begun", "begun"]
        with bed.link_down(bed.ends()[0]):
            time.sleep(0.1)
        job.ask()
        assert min(job.values()) > 0
    for outcome in job.outcomes():
        assert outcome.said("info", "works again"), outcome.log


def test_mixed_job() -> None:
    """Rank 1 has no RDMA device: it gets UDP, the others RoCE among them."""

    def body(rank: Rank) -> None:
        data = np.full(100_001, rank.number + 1, np.int32)
        rank.group.all_reduce(data, "int32").wait()
        assert (data == 10).all()
        exchanged = np.zeros(4 * 1001, np.int32)
        mine = np.full(4 * 1001, rank.number, np.int32)
        rank.group.all_to_all(mine, exchanged, "int32").wait()
        assert (exchanged == np.repeat(np.arange(4), 1001)).all()

    with Job(4, body, "auto", own={1: NO_DEVICE}) as job:
        job.values()
        outcomes = job.outcomes()
    assert outcomes[1].said("info", "only UDP"), outcomes[1].log
    for outcome in (outcomes[0], outcomes[2], outcomes[3]):
        assert outcome.said("info", "RoCE"), outcome.log
    for outcome in outcomes:
        assert not outcome.warnings(), outcome.log


def test_a_path_that_never_works_is_said_once_for_a_pair() -> None:
    def body(rank: Rank) -> None:
        for _ in range(3):
            data = np.ones(1000, np.int32)
            rank.group.all_reduce(data, "int32").wait()
            assert (data == 2).all()

    with bed.netem("loss 100%"), Job(2, body, "rc") as job:
        job.values()
        for outcome in job.outcomes():
            [text] = outcome.warnings()
            assert "UDP: " in text and "ranks" in text
