# SPDX-License-Identifier: Apache-2.0
"""rocecoll._core: every collective over buffers, several ranks as threads of one process."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

core = pytest.importorskip("rocecoll._core")

pytestmark = pytest.mark.quick

LIMIT_S = 200.0
Body = Callable[[int, "core.Group"], None]


class Ranks:
    """One runtime a rank; every run() has a group of its own."""

    def __init__(self, count: int, fault: str = "", **options: float) -> None:
        self.runtimes = [
            core.Runtime(options | {"fault": f"{fault},seed={rank}"}) for rank in range(count)
        ]

    def run(self, body: Body, timeout_s: float = LIMIT_S) -> None:
        addresses = [runtime.address for runtime in self.runtimes]
        key = os.urandom(16)
        ended = threading.Barrier(len(addresses))

        def rank_main(rank: int) -> None:
            group = core.Group(self.runtimes[rank], "test", key, rank, addresses, timeout_s)
            try:
                body(rank, group)
            finally:
                ended.wait(LIMIT_S)  # a rank that leaves early is another test
                group.close()

        with ThreadPoolExecutor(len(addresses)) as pool:
            for result in [pool.submit(rank_main, rank) for rank in range(len(addresses))]:
                result.result(LIMIT_S)


@pytest.fixture(params=[1, 2, 3, 4])
def ranks(request: pytest.FixtureRequest) -> Iterator[Ranks]:
    made = Ranks(request.param)
    yield made
    for runtime in made.runtimes:
        runtime.shutdown()


def values(rank: int, size: int) -> np.ndarray:
    return (np.arange(size, dtype=np.float64) % 97 + 1) * (rank + 1)


def total(count: int, size: int) -> np.ndarray:
    return sum((values(rank, size) for rank in range(count)), np.zeros(size))


@pytest.mark.parametrize("size", [0, 1, 7, 100_003])
def test_collectives(ranks: Ranks, size: int) -> None:
    count = len(ranks.runtimes)

    def body(rank: int, group: core.Group) -> None:
        assert (group.rank, group.size, group.status) == (rank, count, "ok")
        root = count - 1
        mine, everyone = values(rank, size), [values(r, size) for r in range(count)]
        whole = np.concatenate(everyone)
        kind = "float64"

        reduced = mine.copy()
        assert group.all_reduce(reduced, kind).wait(LIMIT_S)
        np.testing.assert_array_equal(reduced, total(count, size))
        output = np.zeros(size)
        group.all_reduce(mine, kind, "MAX", output).wait(LIMIT_S)
        np.testing.assert_array_equal(output, values(count - 1, size))
        group.all_reduce(mine, kind, "avg", output).wait(LIMIT_S)
        np.testing.assert_allclose(output, total(count, size) / count)
        group.all_reduce(mine, kind, "PREMUL_SUM", output, 0.5).wait(LIMIT_S)
        np.testing.assert_allclose(output, total(count, size) * 0.5)
        np.testing.assert_array_equal(mine, values(rank, size))

        group.reduce(mine, kind, root, output=output if rank == root else None).wait(LIMIT_S)
        if rank == root:
            np.testing.assert_array_equal(output, total(count, size))
        block = np.zeros(size)
        group.reduce_scatter(whole, block, kind, "PREMUL_SUM", premul_factor=2).wait(LIMIT_S)
        np.testing.assert_array_equal(block, values(rank, size) * 2 * count)
        sent = mine.copy() if rank == root else np.zeros(size)
        group.broadcast(sent, kind, root).wait(LIMIT_S)
        np.testing.assert_array_equal(sent, values(root, size))
        gathered = np.zeros(size * count)
        group.all_gather(mine, gathered, kind).wait(LIMIT_S)
        np.testing.assert_array_equal(gathered, whole)
        gathered = np.zeros(size * count)
        group.gather(mine, gathered if rank == root else None, kind, root).wait(LIMIT_S)
        if rank == root:
            np.testing.assert_array_equal(gathered, whole)
        group.scatter(whole if rank == root else None, block, kind, root).wait(LIMIT_S)
        np.testing.assert_array_equal(block, mine)
        exchanged = np.zeros(size * count)
        group.all_to_all(np.tile(mine, count), exchanged, kind).wait(LIMIT_S)
        np.testing.assert_array_equal(exchanged, whole)
        group.barrier().wait(LIMIT_S)

    ranks.run(body)


def test_blocks_of_different_sizes(ranks: Ranks) -> None:
    count = len(ranks.runtimes)

    def body(rank: int, group: core.Group) -> None:
        counts = [(3 * r) % 5 for r in range(count)]
        gathered = np.zeros(sum(counts), dtype=np.int32)
        mine = np.full(counts[rank], rank, dtype=np.int32)
        group.all_gather(mine, gathered, "int32", counts).wait(LIMIT_S)
        expected = np.repeat(np.arange(count), counts)
        np.testing.assert_array_equal(gathered, expected)
        summed = np.zeros(counts[rank], dtype=np.int32)
        group.reduce_scatter(gathered, summed, "int32", counts=counts).wait(LIMIT_S)
        np.testing.assert_array_equal(summed, mine * count)

        to = [rank + r for r in range(count)]  # rank 0 has nothing for itself
        received = np.zeros(sum(to), dtype=np.int32)
        sent = np.repeat(np.arange(count, dtype=np.int32) * 10 + rank, to)
        group.all_to_all(sent, received, "int32", to, to).wait(LIMIT_S)
        np.testing.assert_array_equal(received, np.repeat(rank * 10 + np.arange(count), to))

    ranks.run(body)


def test_calls_that_return_when_they_are_complete(ranks: Ranks) -> None:
    count = len(ranks.runtimes)

    def body(rank: int, group: core.Group) -> None:
        for size in (0, 1, 1000, 300_000):
            data = values(rank, size)
            mine = data.copy()
            result = np.zeros_like(data)
            assert group.all_reduce(mine, "float64", "max", result, asynchronous=False) is None
            np.testing.assert_array_equal(result, values(count - 1, size))
            np.testing.assert_array_equal(mine, data)
            group.all_reduce(data, "float64", asynchronous=False)
            np.testing.assert_array_equal(data, total(count, size))
        group.barrier(asynchronous=False)

    ranks.run(body)


def test_failures_of_calls_that_return_when_they_are_complete() -> None:
    def body(rank: int, group: core.Group) -> None:
        with pytest.raises(core.InvalidArgumentError, match="contiguous"):
            group.all_reduce(np.zeros((2, 2))[:, 1], "float64", asynchronous=False)
        data = np.zeros(10 + rank, dtype=np.float32)
        with pytest.raises(core.MismatchError, match="10 elements"):
            group.all_reduce(data, "float32", asynchronous=False)

    Ranks(2).run(body)


def test_a_signal_ends_a_call_and_not_the_operation() -> None:
    class WokenError(Exception):
        pass

    def wake(*_: object) -> None:
        raise WokenError

    ranks = Ranks(2)
    addresses = [runtime.address for runtime in ranks.runtimes]
    groups = [
        core.Group(ranks.runtimes[r], "test", b"s" * 16, r, addresses, LIMIT_S) for r in range(2)
    ]
    data = bytearray(8)

    def wake_who_has_lent() -> None:
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            try:
                data.__init__(8)  # fresh zeros in one step, unless the memory is lent
            except BufferError:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGALRM)
                return

    before = signal.signal(signal.SIGALRM, wake)
    watcher = threading.Thread(target=wake_who_has_lent)
    try:
        watcher.start()
        with pytest.raises(WokenError):
            groups[0].broadcast(data, "uint8", 1, asynchronous=False)
    finally:
        watcher.join()
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(BufferError):
        data.append(1)  # it is lent, as the operation goes on
    assert groups[1].broadcast(bytearray(b"received"), "uint8", 1).wait(LIMIT_S)
    # Complete once the barrier behind it is.
    assert all(operation.wait(LIMIT_S) for operation in [group.barrier() for group in groups])
    assert data == b"received"


def test_send_and_receive_in_any_order() -> None:
    def body(rank: int, group: core.Group) -> None:
        peer = 1 - rank
        received = [np.zeros(1 << (2 * tag), dtype=np.int16) for tag in range(9)]
        sent = [np.full(1 << (2 * tag), 10 * rank + tag, dtype=np.int16) for tag in range(9)]
        operations = [group.recv(received[tag], "int16", peer, tag) for tag in reversed(range(9))]
        operations += [group.send(sent[tag], "int16", peer, tag) for tag in range(9)]
        for operation in operations:
            assert operation.wait(LIMIT_S)
        for tag in range(9):
            assert (received[tag] == 10 * peer + tag).all()

    Ranks(2).run(body)


def test_faults_show_in_time_only() -> None:
    ranks = Ranks(
        3,
        fault="loss=0.05,duplicate=0.02,reorder=0.05,corrupt=0.02",
        udp_max_datagram_bytes=1400,
    )

    def body(rank: int, group: core.Group) -> None:
        for size in (1, 1000, 100_000, 500_000):
            data = values(rank, size)
            operations = [group.all_reduce(data.copy(), "float64") for _ in range(3)]
            group.all_reduce(data, "float64").wait(LIMIT_S)
            np.testing.assert_array_equal(data, total(3, size))
            for operation in operations:
                assert operation.wait(LIMIT_S)

    ranks.run(body)
    assert sum(r.stats()["packets_retransmitted"] for r in ranks.runtimes) > 0
    assert sum(r.stats()["packets_dropped_invalid"] for r in ranks.runtimes) > 0


def test_many_operations_in_flight() -> None:
    def body(rank: int, group: core.Group) -> None:
        data = [np.full(1 + 13 * i, rank + i, dtype=np.int64) for i in range(200)]
        operations = [group.all_reduce(d, "int64") for d in data]
        assert all(operation.wait(LIMIT_S) for operation in operations)
        assert all((d == 3 + 3 * i).all() for i, d in enumerate(data))
        assert {operation.status for operation in operations} == {"ok"}

    Ranks(3).run(body)


def test_buffers_are_refused() -> None:
    ranks = Ranks(1)

    def body(rank: int, group: core.Group) -> None:
        good = np.zeros(4, dtype=np.float32)
        frozen = np.zeros(4, dtype=np.float32)
        frozen.flags.writeable = False
        with pytest.raises(core.InvalidArgumentError, match="contiguous"):
            group.all_reduce(np.zeros((4, 4), dtype=np.float32)[:, 1], "float32")
        with pytest.raises(core.InvalidArgumentError, match="writable"):
            group.all_reduce(frozen, "float32")
        with pytest.raises(ValueError, match="3 bytes"):
            group.all_reduce(bytearray(3), "float32")
        with pytest.raises(core.InvalidArgumentError, match="output"):
            group.all_reduce(frozen, "float32", output=np.zeros(3, dtype=np.float32))
        with pytest.raises(core.InvalidArgumentError, match="float31"):
            group.all_reduce(good, "float31")
        with pytest.raises(core.InvalidArgumentError, match="MEDIAN"):
            group.all_reduce(good, "float32", "MEDIAN")
        with pytest.raises(core.UnsupportedError, match="float32"):
            group.all_reduce(good, "float32", "BAND")
        with pytest.raises(core.InvalidArgumentError, match="rank 5"):
            group.broadcast(good, "float32", 5)
        with pytest.raises(core.InvalidArgumentError, match="counts"):
            group.all_gather(good, good, "float32", [3])
        with pytest.raises(TypeError):
            group.all_reduce([1.0, 2.0], "float32", unknown=1)
        group.all_reduce(frozen, "float32", output=good).wait(LIMIT_S)

    ranks.run(body)
    address = ranks.runtimes[0].address
    with pytest.raises(core.InvalidArgumentError, match="16 bytes"):
        core.Group(ranks.runtimes[0], "short", b"key", 0, [address])
    with pytest.raises(core.InvalidArgumentError, match="nowhere"):
        core.Group(ranks.runtimes[0], "bad", bytes(16), 0, ["nowhere"])
    with pytest.raises(core.InvalidArgumentError, match="no option"):
        core.Runtime({"udp_magic": 1})
    with pytest.raises(core.InvalidArgumentError, match="carrier_pigeon"):
        core.Runtime({"transport": "carrier_pigeon"})


def test_mismatch_names_both_calls() -> None:
    def body(rank: int, group: core.Group) -> None:
        data = np.zeros(10 + rank, dtype=np.float32)
        with pytest.raises(core.MismatchError) as raised:
            group.all_reduce(data, "float32").wait(LIMIT_S)
        assert "all_reduce(SUM, float32, 10 elements)" in str(raised.value)
        assert "all_reduce(SUM, float32, 11 elements)" in str(raised.value)
        assert group.status == "mismatch"
        # Refused at once, or by wait() if the progress thread was at work just then.
        with pytest.raises(core.MismatchError):
            group.barrier().wait(LIMIT_S)

    Ranks(2).run(body)


def test_timeout_names_who_is_missing() -> None:
    def body(rank: int, group: core.Group) -> None:
        if rank == 1:
            return
        operation = group.barrier()
        assert operation.wait(0.01) is False
        assert (operation.done, operation.status) == (False, "pending")
        with pytest.raises(TimeoutError, match=r"barrier #2: timed out after 1 s.*rank 1 \(127"):
            group.barrier(timeout_s=1.0).wait(LIMIT_S)

    Ranks(2).run(body)


def test_abort_reaches_everyone() -> None:
    def body(rank: int, group: core.Group) -> None:
        if rank == 2:
            group.abort("out of coffee")
        with pytest.raises(core.AbortedError, match="out of coffee"):
            group.barrier().wait(LIMIT_S)

    Ranks(3).run(body)


def test_leaving_while_needed() -> None:
    ranks = Ranks(2)
    addresses = [runtime.address for runtime in ranks.runtimes]
    groups = [
        core.Group(ranks.runtimes[r], "test", b"k" * 16, r, addresses, LIMIT_S) for r in range(2)
    ]
    assert all(op.wait(LIMIT_S) for op in [group.barrier() for group in groups])
    groups[1].close()
    with pytest.raises(core.AbortedError, match="closed"):
        groups[1].barrier()
    with pytest.raises(ConnectionError, match=r"rank 1 .* left the group"):
        groups[0].barrier().wait(LIMIT_S)


@pytest.mark.parametrize("count", [0, 1, 1000, 300_000])
def test_memory_that_stays_registered_is_a_buffer(ranks: Ranks, count: int) -> None:
    def body(rank: int, group: core.Group) -> None:
        memory = core.Memory(count * 8)
        array = np.frombuffer(memory, np.float64) if count else np.empty(0)
        assert len(memoryview(memory)) == count * 8
        del memory  # the array keeps it
        array[:] = values(rank, count)
        assert group.all_reduce(array, "float64").wait(LIMIT_S)
        assert (array == sum(values(other, count) for other in range(group.size))).all()

    ranks.run(body)


def test_more_memory_than_there_is_is_refused() -> None:
    with pytest.raises(MemoryError):
        core.Memory(2**62)


def test_buffers_are_let_go_on_completion() -> None:
    held = threading.Event()

    def body(rank: int, group: core.Group) -> None:
        data = bytearray(1000)
        if rank == 1:
            assert held.wait(LIMIT_S)
        operation = group.all_reduce(data, "uint8")
        if rank == 0:
            with pytest.raises(BufferError):
                data.append(1)  # it is lent
            held.set()
        assert operation.wait(LIMIT_S)
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            try:
                data.append(1)
                return
            except BufferError:  # the completing thread has not dropped it yet
                time.sleep(0.001)
        pytest.fail("still lent")

    Ranks(2).run(body)


def test_idle_costs_no_cpu() -> None:
    ranks = Ranks(2, heartbeat_interval=0.1)

    def body(rank: int, group: core.Group) -> None:
        group.barrier().wait(LIMIT_S)

    ranks.run(body)
    deadline = time.monotonic() + LIMIT_S
    while True:  # until, for a second, nothing else in this process has run
        before = time.process_time()
        time.sleep(1.0)
        used_s = time.process_time() - before
        if used_s < 0.2:
            return
        assert time.monotonic() < deadline, used_s


def test_names() -> None:
    assert "fault" in [option.name for option in core.option_table()]
    assert "ring" in core.algorithm_names("allreduce")
    assert "halving_doubling" in core.algorithm_names("allreduce", 4)
    assert "halving_doubling" not in core.algorithm_names("allreduce", 3)
    assert core.algorithm_names("alltoall", 3) == ["bruck", "pairwise"]
    assert "host_columns" in core.algorithm_names("alltoall", 4, [0, 0, 1, 1])
    assert "host_columns" in core.algorithm_names("alltoall", 4, [0, 0, 0, 1])
    assert "host_columns" not in core.algorithm_names("alltoall", 4)
    assert core.version()
    with pytest.raises(core.InvalidArgumentError):
        core.algorithm_names("alldance")
    with pytest.raises(core.InvalidArgumentError, match="1 hosts named for 2 ranks"):
        core.algorithm_names("alltoall", 2, [0])
    with pytest.raises(
        core.InvalidArgumentError, match="65537 ranks, where a group has 1 to 65536"
    ):
        core.algorithm_names("alltoall", 65537, [0] * 65537)


def test_more_ranks_than_a_group_has() -> None:
    """The runtime's other groups go on."""
    ranks = Ranks(1)

    def body(rank: int, group: core.Group) -> None:
        runtime = ranks.runtimes[rank]
        too_many = [runtime.address] * 65537
        message = r'group "large": 65537 ranks, where a group has 1 to 65536'
        with pytest.raises(core.InvalidArgumentError, match=message):
            core.Group(runtime, "large", os.urandom(16), 0, too_many)
        group.barrier().wait(LIMIT_S)
        assert group.status == "ok"

    ranks.run(body)
