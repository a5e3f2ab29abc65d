# SPDX-License-Identifier: Apache-2.0
"""Every host tries UDP with every other one; they meet and compare in a Store.

First every host asks every other for echoes, which shows who reaches whom, and searches the largest
packet that gets through. Then pairs take turns, no two with a common host, to measure a stream's rate.
"""

from __future__ import annotations

import secrets
import socket
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from rocecoll.diagnosis.pairs.echo import EchoSocket, Kind, headers_bytes, route_mtu_bytes
from rocecoll.diagnosis.pairs.mtu_search import MtuSearch
from rocecoll.diagnosis.pairs.table import STEP_LIMIT, PairsError, Table, turns
from rocecoll.diagnosis.pairs.udp_verdicts import Member, Way
from rocecoll.rendezvous.meeting import Store
from rocecoll.rendezvous.records import host_id

REQUESTS = 20
REQUEST_BYTES = 64
LEAST_PAYLOAD_BYTES = 1200  # what rocecoll sends over any path
_BETWEEN_S = 0.01
_ECHO_LIMIT_S = 2.0
_SIZE_LIMIT_S = 2.0
_COPIES = 3  # of each size: one lost packet must not look like a small MTU
_STREAM_S = 0.25


@dataclass
class _Probe:
    """What one rank finds out about the way to a peer."""

    sent: int = 0
    refusal: str = ""
    rtts_us: tuple[float, ...] = ()
    mtu_bytes: int | None = None
    route_mtu_bytes: int | None = None


def try_pairs(
    store: Store,
    rank: int,
    ranks: int,
    address: str,
    ports: tuple[int, int],
    patience: timedelta,
) -> tuple[list[Member], list[Way]]:
    """What all ranks have measured, the same on every rank. PairsError if not all take part."""
    table = Table(store, rank, ranks)
    if rank == 0:
        table.say("key", secrets.token_hex(16))
    [key] = table.hear("key", [0], patience)
    with EchoSocket(address, ports, rank, bytes.fromhex(key)) as echo:
        own = Member(rank, socket.gethostname(), host_id(), address, echo.port)
        members = _meet(table, own, ranks, patience)
        peers = [member for member in members if member.rank != rank]
        probes = {peer.rank: _Probe() for peer in peers}
        _ask_for_echoes(echo, peers, probes)
        table.say("asked", True)
        table.hear_all("asked")  # from here on no requests are in flight
        echo.settle(_ECHO_LIMIT_S)
        arrived = dict(echo.heard.requests)
        _search_mtus(echo, peers, probes)
        _stream_in_turn(echo, table, members, probes)
        table.say("heard", _result(echo, arrived, probes))
        results = table.hear_all("heard")
    return members, [
        _way(source, target.rank, results)
        for source in range(ranks)
        for target in members
        if target.rank != source
    ]


def _meet(table: Table, own: Member, ranks: int, patience: timedelta) -> list[Member]:
    """Rank 0 alone decides who is missing, so that all that came learn the same at the same time."""
    table.say("member", asdict(own))
    if own.rank != 0:
        [start] = table.hear("start", [0], patience + STEP_LIMIT)
        if start["missing"]:
            table.say("done", True)
            raise PairsError(start["missing"])
        return [Member(**fields) for fields in start["members"]]
    try:
        members = table.hear_all("member", patience)
    except PairsError as error:
        table.say("start", {"missing": str(error)})
        table.hear("done", [rank for rank in range(1, ranks) if table.has("member", rank)])
        raise
    table.say("start", {"missing": "", "members": members})
    return [Member(**fields) for fields in members]


def part(store: Store, rank: int, ranks: int) -> None:
    """The Store's host leaves last."""
    table = Table(store, rank, ranks)
    table.say("done", True)
    if rank == 0:
        table.hear_all("done")


def _ask_for_echoes(echo: EchoSocket, peers: Sequence[Member], probes: dict[int, _Probe]) -> None:
    asked: dict[int, list[tuple[int, float]]] = {peer.rank: [] for peer in peers}
    for _ in range(REQUESTS):
        for peer in peers:
            probe = probes[peer.rank]
            probe.sent += 1
            try:
                at_s = time.monotonic()
                number = echo.ask(Kind.REQUEST, (peer.address, peer.port), REQUEST_BYTES)
                asked[peer.rank].append((number, at_s))
            except OSError as error:
                probe.refusal = f"the sender's own system says: {error.strerror}"
        time.sleep(_BETWEEN_S)
    echo.wait_for((number for sent in asked.values() for number, _ in sent), _ECHO_LIMIT_S)
    for peer in peers:
        probes[peer.rank].rtts_us = tuple(
            (echo.heard.replies_s[number] - at_s) * 1e6
            for number, at_s in asked[peer.rank]
            if number in echo.heard.replies_s
        )


def _search_mtus(echo: EchoSocket, peers: Sequence[Member], probes: dict[int, _Probe]) -> None:
    """Searches the MTU to all peers at once."""
    searches: dict[int, MtuSearch] = {}
    for peer in peers:
        probe = probes[peer.rank]
        if probe.rtts_us:
            probe.route_mtu_bytes = route_mtu_bytes((peer.address, peer.port))
            most = min(probe.route_mtu_bytes - headers_bytes(peer.address), 65507)
            searches[peer.rank] = MtuSearch(LEAST_PAYLOAD_BYTES, max(most, LEAST_PAYLOAD_BYTES))
    while sizes := {rank: one.size_bytes for rank, one in searches.items() if not one.done}:
        passed = _which_pass(echo, [peer for peer in peers if peer.rank in sizes], sizes)
        for rank in sizes:
            searches[rank].hear(rank in passed)
    for peer in peers:
        if peer.rank in searches and (works := searches[peer.rank].works_bytes):
            probes[peer.rank].mtu_bytes = works + headers_bytes(peer.address)


def _which_pass(echo: EchoSocket, peers: Sequence[Member], sizes: dict[int, int]) -> set[int]:
    numbers: dict[int, list[int]] = {}
    for peer in peers:
        numbers[peer.rank] = []
        for _ in range(_COPIES):
            try:
                number = echo.ask(Kind.SIZE, (peer.address, peer.port), sizes[peer.rank])
            except OSError:  # EMSGSIZE: as good as lost
                continue
            numbers[peer.rank].append(number)
    echo.wait_for((sent[-1] for sent in numbers.values() if sent), _SIZE_LIMIT_S)
    replies = echo.heard.replies_s
    return {rank for rank, sent in numbers.items() if any(number in replies for number in sent)}


def _stream_in_turn(
    echo: EchoSocket, table: Table, members: Sequence[Member], probes: dict[int, _Probe]
) -> None:
    for turn, partners in enumerate(turns(len(members))):
        partner = partners[echo.rank]
        if partner < 0:
            continue
        for sender in sorted((echo.rank, partner)):
            name = f"streamed/{turn}/{sender}"
            if sender == echo.rank and (mtu_bytes := probes[partner].mtu_bytes):
                to = members[partner]
                payload_bytes = mtu_bytes - headers_bytes(to.address)
                echo.stream((to.address, to.port), payload_bytes, _STREAM_S)
            table.say(name, True)
            table.hear(name, [partner])


def _result(echo: EchoSocket, arrived: dict[int, int], probes: dict[int, _Probe]) -> dict[str, Any]:
    bandwidths = {rank: bulk.bandwidth_mbit_s for rank, bulk in echo.heard.bulks.items()}
    return {
        "probes": {rank: asdict(probe) for rank, probe in probes.items()},
        "arrived": arrived,
        "bandwidths_mbit_s": bandwidths,
    }


def _way(source: int, target: int, results: Sequence[dict[str, Any]]) -> Way:
    """JSON has made the ranks, which are keys, text."""
    probe = results[source]["probes"][str(target)]
    rtts_us = probe["rtts_us"]
    return Way(
        source=source,
        target=target,
        sent=probe["sent"],
        arrived=min(results[target]["arrived"].get(str(source), 0), probe["sent"]),
        echoed=len(rtts_us),
        refusal=probe["refusal"],
        rtt_us=statistics.median(rtts_us) if rtts_us else None,
        mtu_bytes=probe["mtu_bytes"],
        route_mtu_bytes=probe["route_mtu_bytes"],
        bandwidth_mbit_s=results[target]["bandwidths_mbit_s"].get(str(source), 0.0),
    )
