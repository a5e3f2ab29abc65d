# SPDX-License-Identifier: Apache-2.0
"""What rocecoll says and does to devices, as seen by others: pyverbs, the kernel, the wire."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import bed
import numpy as np
import pytest
import witness
from core_alone import core
from job import Job, Rank

from rocecoll.diagnosis.machine.rdma_ports import read_ports
from rocecoll.host.port_counters import Sign, signs

PAUSE_S = 0.01  # after each round, so that the wire is seen faster than it is filled


@pytest.fixture
def pyverbs() -> None:
    witness.skip_without_pyverbs()


def add_up(rank: Rank, elements: int) -> None:
    data = np.full(elements, rank.number + 1, np.int64)
    assert rank.group.all_reduce(data, "int64").wait()
    assert (data == rank.size * (rank.size + 1) // 2).all()


def test_devices_are_described_as_they_are(pyverbs: None) -> None:
    with Job(1, lambda rank: core.describe_devices({"transport": "rc"}), "udp") as job:
        lines = job.values()[0].splitlines()
    for end in bed.ends():
        offered = witness.apart(witness.offer, end.device)
        [line] = [line for line in lines if line.startswith(end.device)]
        assert f"GID {end.gid_index} ({end.address}, RoCE v2)" in line
        assert str(offered.active_mtu_bytes) in line
        address, kind = offered.gids[end.gid_index]
        assert (address, kind) == (str(witness.apart(text_of_gid, end.address)), "RoCE v2")


def text_of_gid(address: str) -> str:
    return str(witness.gid_of(address))


def test_the_log_of_rc_names_the_device_that_is_used(pyverbs: None) -> None:
    # So much that a rank waits for its peer's answer: what goes at once may be done before the path.
    with Job(2, lambda rank: add_up(rank, 100_000), "rc") as job:
        job.values()
        outcomes = job.outcomes()
    pattern = r"ranks \d and \d .*: RoCE, .*over (\w+) port 1, GID (\d+) \(([\d.]+), RoCE v2\)"
    for outcome, end in zip(outcomes, bed.ends(), strict=True):
        [said] = filter(None, (re.search(pattern, text) for _, text in outcome.log))
        device, index, address = said.groups()
        assert (device, int(index), address) == (end.device, end.gid_index, end.address)
        offered = witness.apart(witness.offer, device)
        assert offered.gids[int(index)] == (str(witness.apart(text_of_gid, end.address)), "RoCE v2")


def test_the_log_of_ud_names_the_queue_pair_that_is_used() -> None:
    def body(rank: Rank) -> list[int]:
        add_up(rank, 1000)
        rank.group.barrier().wait()
        return [pair["lqpn"] for pair in bed.resources("qp", rank.end.device)]

    with Job(2, body, "ud") as job:
        numbers, outcomes = job.values(), job.outcomes()
    pattern = r"datagrams of 4096 bytes from ([\d.]+) queue pair (\d+)"
    for outcome, end, [number] in zip(outcomes, bed.ends(), numbers, strict=True):
        [said] = filter(None, (re.search(pattern, text) for _, text in outcome.log))
        assert said.groups() == (end.address, str(number))


def test_lost_packets_show_in_the_counters_that_users_see() -> None:
    """What the devices repeat by themselves, as the kernel counts it."""
    before = {port.device: port.counters for port in read_ports()}
    with bed.netem("loss 5%"), Job(2, lambda rank: add_up(rank, 100_000), "rc") as job:
        job.values()
    repeated = 0
    for port in read_ports():
        kernel = bed.hw_counters(port.device)
        told = {name: value for name, value in port.counters.items() if name in kernel}
        assert told and told == {name: kernel[name] for name in told}
        lost = signs(port.counters).get(Sign.LOST, {})
        repeated += sum(value - before[port.device][name] for name, value in lost.items())
    assert repeated > 0


@pytest.mark.parametrize("transport", ["rc", "ud"])
def test_nothing_stays_after_the_end(transport: str) -> None:
    """While the process lives: what a link had goes with its group, the rest with the runtime."""
    idle = bed.resource_counts()

    def body(rank: Rank) -> None:
        def held() -> dict[str, int]:
            counts = bed.resource_counts()[rank.end.device]
            return {kind: n - idle[rank.end.device][kind] for kind, n in counts.items()}

        add_up(rank, 1_000_000)
        rank.group.barrier().wait()
        while_open = held()
        assert while_open["qp"] == 1
        assert while_open["mr"] > 0
        rank.tell("seen")
        bed.wait_until(rank.asked, "the other rank has seen it, too")
        rank.group.close()
        if transport == "rc":
            bed.wait_until(lambda: held()["qp"] == 0, "the link's queue pair is gone")
        rank.leave()
        bed.wait_until(lambda: not any(held().values()), "all is gone")

    with Job(2, body, transport) as job:
        assert [job.told(0), job.told(1)] == ["seen", "seen"]
        job.ask()
        job.values()


def test_memory_of_an_operation_is_registered_only_meanwhile() -> None:
    """Nothing of the user's is writable by peers before and after."""

    def body(rank: Rank) -> None:
        def lengths() -> set[int]:
            return {int(entry["mrlen"]) for entry in bed.resources("mr", rank.end.device)}

        add_up(rank, 1000)
        rank.group.barrier().wait()
        peer, large = 1 - rank.number, np.zeros(3_000_001, np.uint8)
        if rank.number == 0:
            receiving = rank.group.recv(large, "uint8", peer)
            bed.wait_until(lambda: large.nbytes in lengths(), "the slice is registered")
            rank.tell("exposed")
            assert receiving.wait()
        else:
            while not rank.asked():
                pass
            assert rank.group.send(large, "uint8", peer).wait()
        rank.group.barrier().wait()
        bed.wait_until(lambda: large.nbytes not in lengths(), "the slice is not registered")

    with Job(2, body, "rc") as job:
        assert job.told(0) == "exposed"
        job.ask()
        job.values()


def test_memory_of_our_own_stays_registered_until_it_is_freed() -> None:
    """So that operations one after the other do not register it again."""
    size_bytes = 100 * 4096

    def body(rank: Rank) -> None:
        def keys() -> list[int]:
            entries = bed.resources("mr", rank.end.device)
            return [int(entry["mrn"]) for entry in entries if int(entry["mrlen"]) == size_bytes]

        data = np.frombuffer(core.Memory(size_bytes), np.int64)
        registered = []
        for _ in range(3):
            data.fill(rank.number + 1)
            assert rank.group.all_reduce(data, "int64").wait()
            assert (data == 3).all()
            registered.append(keys())
        assert registered[0] == registered[1] == registered[2] != []
        del data
        bed.wait_until(lambda: not keys(), "what was freed is not registered")
        rank.group.barrier().wait()

    with Job(2, body, "rc") as job:
        job.values()


def test_forged_datagrams_change_nothing(pyverbs: None) -> None:
    """With a wrong queue key, with the right one and garbage, and with packets seen on the wire."""

    def body(rank: Rank) -> int:
        rounds = 0
        stop = np.zeros(1, np.int32)
        rank.tell("begin")
        while not stop[0]:
            add_up(rank, 10 + 997 * (rounds % 5))
            stop[0] = rank.asked(PAUSE_S)
            rank.group.all_reduce(stop, "int32", "MAX").wait()
            rounds += 1
        return rounds

    here, there = bed.ends()
    with Job(2, body, "ud") as job, witness.Tap(here.interface) as tap:
        assert [job.told(0), job.told(1)] == ["begin", "begin"]
        [pair] = bed.resources("qp", here.device)
        seen: list[witness.Datagram] = []

        def sees_a_hundred() -> bool:
            passed = tap.take()
            target = (here.address, pair["lqpn"])
            seen.extend(d for d in passed if (d.address, d.destination) == target)
            return len(seen) >= 100

        bed.wait_until(sees_a_hundred, "datagrams for rank 0 on the wire")
        assert {datagram.queue_key for datagram in seen} == {seen[0].queue_key}
        forged = forgeries(seen, random.Random(1))
        tap.take()
        witness.apart(witness.send_datagrams, there, forged)
        assert set(forged) <= set(tap.take()), "they did not take the wire"
        job.ask()
        assert min(job.values()) > 0
    for outcome in job.outcomes():
        assert not outcome.warnings(), outcome.log


def forgeries(seen: list[witness.Datagram], source: random.Random) -> list[witness.Datagram]:
    key = seen[0].queue_key
    wrong = [replace(seen[0], queue_key=key ^ 1 << bit) for bit in (0, 8, 30)]
    garbage = [
        replace(seen[0], immediate=immediate, payload=source.randbytes(length))
        for immediate in (seen[0].immediate, 0)
        for length in (1, 7, 24, 64, 1000, 4096)
    ]
    flipped = [flip(datagram, source) for datagram in seen if datagram.payload]
    return wrong + garbage + seen + flipped


def flip(datagram: witness.Datagram, source: random.Random) -> witness.Datagram:
    changed = bytearray(datagram.payload)
    bit = source.randrange(8 * len(changed))
    changed[bit // 8] ^= 1 << bit % 8
    return replace(datagram, payload=bytes(changed))
