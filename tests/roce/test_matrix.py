# SPDX-License-Identifier: Apache-2.0
"""All collectives over real queue pairs, on a clean wire and on faulty ones, exact to the bit."""

from __future__ import annotations

import bed
import pytest
from collectives import check_blocks_of_different_sizes, check_every_collective
from job import Job, Outcome, Rank

# Elements of a block: none, one, a frame, and more than one part of a write.
CLEAN_SIZES = (0, 1, 7, 511, 4097, 100_003)
FAULTY_SIZES = (0, 1, 511, 20_011)
FAULTS = {
    "1 % lost": "loss 1%",
    "5 % lost": "loss 5%",
    "late": "delay 2ms",
    "twice": "duplicate 5%",
    "corrupt": "corrupt 2%",
}
RANKS_BY_FAULT = {"1 % lost": (2, 3, 4) if bed.NIGHTLY else (3,)}
# What rxe counts of packets that the other side did not get, or got twice.
REPETITIONS = ("duplicate_request", "out_of_seq_request", "rcvd_seq_err", "completer_retry_err")


def is_carried_by_roce(outcome: Outcome, transport: str) -> bool:
    """It was said that RoCE carries a pair of ranks, and of none that it does not."""
    words = {"rc": "RoCE, reliable connection", "ud": "RoCE carries the traffic"}[transport]
    return outcome.said("info", words) and not outcome.warnings()


def run_matrix(ranks: int, transport: str, sizes: tuple[int, ...]) -> list[Outcome]:
    def body(rank: Rank) -> None:
        for size in sizes:
            check_every_collective(rank, size)
        check_blocks_of_different_sizes(rank)

    before = [bed.sent_bytes(end.interface) for end in bed.ends()]
    with Job(ranks, body, transport) as job:
        job.values(limit_s=500)
        outcomes = job.outcomes()
    for outcome in outcomes:
        assert is_carried_by_roce(outcome, transport), outcome.log
    least = max(sizes) * 4
    for end, sent in zip(bed.ends(), before, strict=True):
        assert bed.sent_bytes(end.interface) - sent > least, "that was not all over the wire"
    return outcomes


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("transport", ["rc", "ud"])
def test_clean(transport: str, ranks: int) -> None:
    run_matrix(ranks, transport, CLEAN_SIZES)


@pytest.mark.parametrize(
    ("fault", "ranks"),
    [(fault, ranks) for fault in FAULTS for ranks in RANKS_BY_FAULT.get(fault, (2,))],
)
@pytest.mark.parametrize("transport", ["rc", "ud"])
def test_faulty(transport: str, fault: str, ranks: int) -> None:
    before = [bed.hw_counters(end.device) for end in bed.ends()]
    with bed.netem(FAULTS[fault]):
        outcomes = run_matrix(ranks, transport, FAULTY_SIZES)
    if "lost" not in fault and fault != "corrupt":
        return
    if transport == "ud":  # whose packets are repeated by us
        assert sum(outcome.stats["packets_retransmitted"] for outcome in outcomes) > 0
        return
    after = [bed.hw_counters(end.device) for end in bed.ends()]
    repeated = [
        sum(new[name] - old[name] for name in REPETITIONS)
        for new, old in zip(after, before, strict=True)
    ]
    assert sum(repeated) > 0, "the faults did not reach the devices"


@pytest.mark.parametrize("apart", [0, 1])
def test_several_queue_pairs_for_a_link(apart: int) -> None:
    """Large messages are cut into a part for each, with its immediate or apart from it."""

    def body(rank: Rank) -> int:
        check_every_collective(rank, 100_003)
        rank.group.barrier().wait()
        return len(bed.resources("qp", rank.end.device))

    variables = {
        "ROCECOLL_IB_QPS_PER_CONNECTION": "3",
        "ROCECOLL_IB_ADAPTIVE_ROUTING": str(apart),
    }
    with Job(2, body, "rc", variables=variables) as job:
        assert job.values() == [3, 3]
