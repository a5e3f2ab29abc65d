# SPDX-License-Identifier: Apache-2.0
"""What ./scripts/bench --limit perftest makes of counters and reports; it boots nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from launch import ROOT

sys.path.append(str(ROOT / "scripts"))

from benchmarks import cases, openmpi, perftest, perftest_ends, perftest_latency, rounds, yardsticks
from benchmarks.cases import ALL_REDUCE, PING_PONG, STREAM, Transport

from rocecoll.bench import machine

pytestmark = pytest.mark.quick


# The rate of perftest, from the packets that were sent by a time.


def test_steady_rate() -> None:
    samples = [(10 + i / 100, 7 + 20 * i) for i in range(51)]
    assert perftest.packet_rate(samples, 1000) == pytest.approx(2000)


def test_slow_start_and_tail_do_not_count() -> None:
    samples = [(0.0, 0), (5.0, 100), (6.0, 900), (11.0, 1000), (20.0, 1000)]
    assert perftest.packet_rate(samples, 1000) == pytest.approx(800)


def test_all_in_one_sample() -> None:
    # The time is at least that of the sample, so there is never a division by zero.
    assert perftest.packet_rate([(1.0, 50), (1.5, 150)], 100) == pytest.approx(200)


def test_control_packets_more_are_no_harm() -> None:
    samples = [(float(i), 10 * i) for i in range(13)]
    assert perftest.packet_rate(samples, 100) == pytest.approx(10)


def test_packets_that_left_before_the_first_look_count() -> None:
    # 1000 a second from 0.98 on.
    later = [(1.5, 527), (1.98, 1007)]
    samples = [*perftest.from_first_look(7, (1.0, 27)), *later]
    assert perftest.packet_rate(samples, 1000) == pytest.approx(1000)


def test_a_look_that_comes_very_late_is_not_in_our_favour() -> None:
    samples = [*perftest.from_first_look(0, (1.5, 500)), (2.0, 1000)]  # 1000 a second
    assert perftest.packet_rate(samples, 1000) > 1000


def test_other_wires_are_noticed() -> None:
    with pytest.raises(RuntimeError, match="sent 3 packets, not 1000"):
        perftest.packet_rate([(0.0, 5), (1.0, 8)], 1000)


@pytest.mark.parametrize("size", STREAM.sizes_bytes)
def test_perftest_moves_the_same_bytes(size: int) -> None:
    total = cases.STREAM_BYTES
    for transport in Transport:
        program, message, count = perftest.run_of(transport, size, total)
        assert message * count == total
        # The receiver of messages must sleep: there may be one processor.
        assert ("-e" in program) == (program[0] == "ib_send_bw")
        words = perftest_ends.command(program, "rxa", "1", message, count)
        assert [words[words.index(option) + 1] for option in ("-s", "-n")] == [
            str(message),
            str(count),
        ]
    assert message == perftest.PACKET_BYTES  # UD's largest


# Its latency.

LATENCY = """\
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]
 8       1000          37.62          10160.49     140.25       \t     155.68     1.2
"""


def test_the_median_is_taken() -> None:
    assert perftest_latency.median_seconds(LATENCY, 8) == pytest.approx(140.25e-6)
    with pytest.raises(RuntimeError, match="nothing of 16 bytes"):
        perftest_latency.median_seconds(LATENCY, 16)


def test_ends_that_poll_need_a_processor_each(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda thread: {0})
    assert rounds.cases_here() == (STREAM, ALL_REDUCE)
    assert "left out: its ends poll" in capfd.readouterr().err


# OpenMPI.


def test_a_call_takes_as_long_as_its_slowest_rank() -> None:
    assert openmpi.slowest([{"8": [1.0, 5.0]}, {"8": [2.0, 3.0]}]) == {8: [2.0, 5.0]}


def test_ranks_that_disagree_on_calls() -> None:
    with pytest.raises(ValueError, match=r"shorter|longer"):
        openmpi.slowest([{"8": [1.0]}, {"8": [1.0, 2.0]}])


def test_openmpi_yields_and_uses_what_it_is_told() -> None:
    words = openmpi.command("va", "/results")
    assert {"mpi_yield_when_idle", "va", "/results"} <= set(words)
    assert openmpi.environment(Transport.ud, "2")["UCX_TLS"] == "ud_verbs,self"
    assert "rc_verbs" in openmpi.environment(Transport.rc, "2")["UCX_TLS"]


# Where both sides' processes run.


def test_each_end_stays_on_a_core() -> None:
    cores = sorted(os.sched_getaffinity(0))
    for end in (0, 1):
        with subprocess.Popen(["sleep", "60"]) as process:
            machine.stay_on_a_core(end, process.pid)
            assert os.sched_getaffinity(process.pid) == {cores[end % len(cores)]}
            process.kill()
    assert sorted(os.sched_getaffinity(0)) == cores
    # Nor does mpirun choose, for one side alone.
    assert "--bind-to none" in " ".join(openmpi.command("va", "/results"))


# The rounds and the table.


def fake_wire(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sent: int) -> list[tuple[str, str]]:
    """Blocks that take no time and send `sent` bytes each; returns what was run."""
    total, order = [0], []
    monkeypatch.setenv("SOFTROCE_OUT", str(tmp_path))
    monkeypatch.setattr(rounds, "bytes_on_wire", lambda: total[0])
    monkeypatch.setattr(perftest_latency, "why_not", lambda: "")

    def block(case: cases.Case, side: str) -> rounds.Block:
        def run(transport: Transport) -> dict[int, float]:
            total[0] += sent
            order.append((case.name, side))
            return dict.fromkeys(case.sizes_bytes, 2.0 if side == "rocecoll" else 1.0)

        return run

    blocks = {
        (case.name, side): block(case, side)
        for case in cases.CASES
        for side in ("rocecoll", "other")
    }
    monkeypatch.setattr(rounds, "BLOCKS", blocks)
    return order


def test_blocks_in_turn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    order = fake_wire(monkeypatch, tmp_path, 1 << 30)
    rounds.main(Transport.rc, 2)
    turns = ["rocecoll", "other", "other", "rocecoll"]
    assert order == 2 * [(case.name, side) for case in cases.CASES for side in turns]

    first, *lines = (tmp_path / "blocks.jsonl").read_text().splitlines()
    assert json.loads(first)["kernel"]
    results = yardsticks.rows(Transport.rc, map(json.loads, lines))
    assert [row.size_bytes for row in results] == [
        size for case in (STREAM, ALL_REDUCE, PING_PONG) for size in case.sizes_bytes
    ]
    # Twice the rate is twice as good, twice the time half as good.
    assert [row.ratio for row in results] == [2] * 2 + [0.5] * 6
    assert [row.met for row in results] == [True] * 2 + [False] * 6


def test_a_block_must_take_the_wire(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_wire(monkeypatch, tmp_path, 1000)
    with pytest.raises(RuntimeError, match="only 1000 were sent over the wire"):
        rounds.main(Transport.ud, 1)


def test_ratio_of_medians() -> None:
    def line(case: cases.Case, side: str, value: float) -> dict:
        values = {str(size): value for size in case.sizes_bytes}
        return {"case": case.name, "side": side, "values": values}

    lines = [line(STREAM, "rocecoll", value) for value in (90.0, 80.0, 1.0)]
    lines += [line(STREAM, "other", value) for value in (100.0, 500.0, 80.0)]
    lines += [line(ALL_REDUCE, side, 1.0) for side in ("rocecoll", "other")]
    results = yardsticks.rows(Transport.ud, lines)
    assert results[0].ratio == pytest.approx(STREAM.bar)
    assert all(row.met for row in results)  # the bar itself is enough
    assert "ib_send_bw -c UD" in results[0].other
    assert yardsticks.table("where", results).row_count == 7
