# SPDX-License-Identifier: Apache-2.0
"""rocecoll.bench: its sizes, sums and known numbers, and what becomes of what ranks tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rocecoll.bench import (
    buffers,
    local_ranks,
    operations,
    plot,
    report,
    results,
    sizes,
    tables,
    turns,
)
from rocecoll.bench.buffers import Buffers
from rocecoll.bench.operations import PLACES, Case, DataType, Operation, Place, Reduction
from rocecoll.bench.results import Block, Row, figures

pytestmark = pytest.mark.quick


def case(
    operation: Operation = Operation.all_reduce,
    size_bytes: int = 1024,
    data_type: DataType = DataType.float32,
    reduction: Reduction = Reduction.sum,
    place: Place = Place.in_place,
) -> Case:
    return Case(operation, size_bytes, data_type, reduction, place)


# Sizes, and what is done.


@pytest.mark.parametrize(
    ("text", "number"),
    [("8", 8), ("64K", 65536), ("1m", 1 << 20), ("2GiB", 2 << 30), ("3kb", 3072)],
)
def test_sizes_are_read(text: str, number: int) -> None:
    assert sizes.parse(text) == number


def test_steps_of_sizes() -> None:
    assert sizes.steps(8, 600, 8) == [8, 64, 512]
    assert sizes.steps(8, 8, 2) == [8]
    for wrong in ((16, 8, 2), (0, 8, 2), (8, 16, 1)):
        with pytest.raises(ValueError, match="no sizes"):
            sizes.steps(*wrong)
    with pytest.raises(ValueError, match="'8x' is no size"):
        sizes.parse("8x")


def test_every_combination_that_there_is() -> None:
    made = operations.cases(
        [Operation.all_reduce, Operation.broadcast, Operation.barrier],
        [8, 64],
        [DataType.float32, DataType.int8],
        [Reduction.sum, Reduction.max],
        list(Place),
    )
    by_operation = {
        operation: [one for one in made if one.operation is operation] for operation in Operation
    }
    assert len(by_operation[Operation.all_reduce]) == 2 * 2 * 2 * 2
    assert len(by_operation[Operation.broadcast]) == 2 * 2  # in place alone, and reduces nothing
    assert len(made) == len(set(made))
    assert case(size_bytes=10, operation=Operation.all_gather).bytes(4) == 16  # one element each


# Known numbers.


def called(operation: Operation, all_ranks: list[Buffers]) -> None:
    """What the operation has to do, with the buffers of all ranks at hand."""
    ranks = len(all_ranks)
    given = [one.input.clone() for one in all_ranks]
    kind = all_ranks[0].case.reduction
    if operation in operations.REDUCING:
        whole = torch.stack(given)
        result = {
            Reduction.sum: lambda: whole.sum(0),
            Reduction.prod: lambda: whole.prod(0),
            Reduction.min: lambda: whole.amin(0),
            Reduction.max: lambda: whole.amax(0),
            Reduction.avg: lambda: (whole / ranks).sum(0),
        }[kind]()
    for rank, one in enumerate(all_ranks):
        block = slice(rank * one.block, (rank + 1) * one.block)
        if operation in (Operation.all_reduce, Operation.reduce):
            one.output.copy_(result)
        elif operation is Operation.reduce_scatter:
            one.output.copy_(result[block])
        elif operation is Operation.broadcast:
            one.output.copy_(given[buffers.ROOT])
        elif operation in (Operation.all_gather, Operation.gather):
            one.output.copy_(torch.cat(given)[: len(one.output)])
        elif operation is Operation.all_to_all:
            one.output.copy_(torch.cat([other[block] for other in given]))
        elif operation is Operation.scatter:
            one.output.copy_(given[buffers.ROOT][block])
        elif operation is Operation.send_recv:
            one.output.copy_(given[rank - 1])


@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize("operation", list(Operation))
def test_what_comes_out_is_known(operation: Operation, ranks: int) -> None:
    for place in PLACES[operation]:
        for reduction in Reduction:
            one = case(operation, 256, reduction=reduction, place=place)
            all_ranks = [Buffers(one, rank, ranks) for rank in range(ranks)]
            for mine in all_ranks:
                mine.fill()
            called(operation, all_ranks)
            assert [mine.wrong() for mine in all_ranks] == [0] * ranks
            for mine in all_ranks[:1] if len(all_ranks[0].output) else []:
                mine.output[-1] += 1
                assert mine.wrong() == 1
                mine.output[-1] -= 1
                if len(mine.output) > 3:
                    mine.output.copy_(mine.output.roll(1))  # all there, and in the wrong place
                    assert mine.wrong() > 0 or len(mine.output.unique()) == 1


# Figures.


def test_bandwidths_are_those_of_nccl_tests() -> None:
    blocks = [Block([1000] * 3, 0.003, cpu_s=0.012)]
    size = 1_000_000
    found = {
        operation: figures(blocks, case(operation, size, DataType.int8), 4)
        for operation in Operation
    }
    assert found[Operation.all_reduce].algbw_gb_s == pytest.approx(1)
    assert found[Operation.all_reduce].busbw_gb_s == pytest.approx(1.5)
    assert found[Operation.all_gather].busbw_gb_s == pytest.approx(0.75)
    assert found[Operation.reduce_scatter].busbw_gb_s == pytest.approx(0.75)
    assert found[Operation.broadcast].busbw_gb_s == pytest.approx(1)
    assert found[Operation.send_recv].busbw_gb_s == pytest.approx(1)
    assert found[Operation.all_reduce].cpu_s_per_gb == pytest.approx(1)  # of each of four
    assert found[Operation.barrier].cpu_s_per_gb is None


def test_percentiles_are_of_all_blocks() -> None:
    blocks = [Block([1000] * 60, 0.06), Block([1000] * 38 + [5000] * 2, 0.048)]
    found = figures(blocks, case(), 2)
    assert (found.p50_us, found.p99_us) == pytest.approx((1000, 5000))
    assert found.operations == 100


def test_a_ratio_is_of_medians_and_tells_its_rounds() -> None:
    blocks = {
        "rocecoll": [Block([time * 1e6], time) for time in (1.0, 1.0, 2.0, 2.0)],
        "gloo": [Block([time * 1e6], time) for time in (2.0, 2.0, 2.0, 2.0)],
    }
    row = Row("host", 2, case(), blocks, {"rocecoll": 0, "gloo": 3})
    ratio = row.ratio("gloo")
    assert (ratio.of_medians, ratio.least, ratio.most) == pytest.approx((2 / 1.5, 1, 2))
    assert row.json()["peers"]["gloo"]["wrong"] == 3
    [(heading, table)] = tables.tables([row])
    assert heading == "all_reduce, float32 sum, in place"
    assert table.row_count == 2


def test_whoever_gives_up_has_bounds() -> None:
    blocks = [Block([5e5] * 3, 2.0), Block([], 20.0, gave_up=True)]
    found = figures(blocks, case(size_bytes=1000, data_type=DataType.int8), 2)
    assert found.algbw_gb_s == pytest.approx(4000 / 22 / 1e9)  # as if one more had just ended
    assert tables.bounded(found, "<", "1") == "< 1"
    row = Row("host", 2, case(), {"rocecoll": [Block([1e6], 1.0)] * 2, "gloo": blocks})
    assert tables.ratio_texts(row, "gloo")[0].startswith("> ")
    row = Row("host", 2, case(), {"rocecoll": blocks, "gloo": blocks})
    assert tables.ratio_texts(row, "gloo")[0] == "-"


def test_every_peer_is_drawn_in_one_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    times = {"rocecoll": 1e-5, "gloo": 1e-4, "mpi": 2e-5}
    rows = [
        Row(
            "host",
            2,
            case(operation, size),
            {who: [Block([t * 1e6], t)] * 2 for who, t in times.items()},
        )
        for operation in (Operation.all_reduce, Operation.broadcast)
        for size in (8, 1024, 65536)
    ]
    rows[0].blocks.pop("mpi")
    assert [len(some) for _, some in plot.curves(rows)] == [3, 3]
    plot.draw(rows, first := tmp_path / "first.svg")
    plot.draw(rows, second := tmp_path / "second.svg")
    text = first.read_text()
    for word in (*times, "all_reduce", "broadcast", "64 KiB", "busbw, GB/s"):
        assert word in text
    assert text == second.read_text()
    with pytest.raises(plot.PlotError, match="nothing that is measured has a size"):
        plot.require(first, [case(Operation.barrier)])


def test_a_report_is_read_while_it_grows(tmp_path: Path) -> None:
    reader = report.Reader(path := tmp_path / "blocks.jsonl")
    assert reader.lines() == []
    path.write_text('{"case": 0}\n{"ca')
    assert reader.lines() == [{"case": 0}]
    with path.open("a") as file:
        file.write('se": 1}\n')
    assert reader.lines() == [{"case": 1}]


def test_lines_become_rows() -> None:
    done: list[int] = []
    collector = report.Collector([Row("host", 2, case())], lambda: done.append(1))
    for times in ([5.0], [7.0, 9.0]):
        collector.take({"case": 0, "peer": "gloo", "block": {"times_us": times, "seconds": 1.0}})
    collector.take({"case": 0, "wrong": {"gloo": 4}})
    collector.take({"ways": ["shm", "udp"]})
    [row] = collector.rows
    assert [list(block.times_us) for block in row.blocks["gloo"]] == [[5.0], [7.0, 9.0]]
    assert (row.wrong, collector.ways, len(done)) == ({"gloo": 4}, ["shm", "udp"], 2)


# Ranks.


@pytest.mark.parametrize(
    ("name", "ranks", "hosts", "words"),
    [
        ("host", 1, 1, "1 rank"),
        ("host", 3, 1, "3 ranks on one host"),
        ("host:udp", 2, 1, "2 ranks on one host, over UDP"),
        ("hosts", 2, 2, "2 hosts"),
        ("hosts", 8, 2, "2 hosts with 4 ranks each"),
        ("hosts", 5, 2, "5 ranks on 2 hosts"),
        ("veth:mtu=9000", 4, 2, "2 hosts with 2 ranks each, veth:mtu=9000"),
    ],
)
def test_where_ranks_are(name: str, ranks: int, hosts: int, words: str) -> None:
    assert results.where(name, ranks, hosts) == words


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        ([None, -9], "rank 1 was killed by SIGKILL"),
        ([3, None, 1], "rank 2 ended with status 1 (see above)"),  # rank 0 has lost it
        ([1, 3, -11], "rank 2 was killed by SIGSEGV"),  # before rank 0 could tell why it failed
        ([3, None], "rank 0 ended with status 3 (see above)"),
    ],
)
def test_the_rank_that_ended_first_is_named(ended: list[int | None], words: str) -> None:
    assert local_ranks.cause(ended) == words


def test_who_computed_before_waits_from_the_last_call_on() -> None:
    called, complete = [0.0, 0.010], [0.0105, 0.0102]
    assert turns.wait_us(called, complete, apart=True) == 500
    assert turns.wait_us(called, complete, apart=False) == 10500


def test_bandwidth_after_computing_is_that_of_the_calls() -> None:
    alone = replace(case(), after_ms=2.0)
    blocks = [Block(times_us=[100.0, 300.0], seconds=1.0)]
    found, whole = figures(blocks, alone, 2), figures(blocks, case(), 2)
    assert found.algbw_gb_s == pytest.approx(2 * alone.bytes(2) / 1e9 / 400e-6)
    assert whole.algbw_gb_s == pytest.approx(2 * alone.bytes(2) / 1e9)
