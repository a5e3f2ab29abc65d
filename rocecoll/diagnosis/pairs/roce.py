# SPDX-License-Identifier: Apache-2.0
"""Every two hosts that have RoCE try it, pair by pair; they compare in a Store."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from rocecoll import environment, options
from rocecoll.diagnosis.machine.rdma import needs_port
from rocecoll.diagnosis.machine.rdma_ports import parse_verdicts
from rocecoll.diagnosis.pairs.roce_exchange import Measured, RoceEnd
from rocecoll.diagnosis.pairs.roce_verdicts import Roce, RocePort, RoceWay
from rocecoll.diagnosis.pairs.table import STEP_LIMIT, Table, turns
from rocecoll.diagnosis.pairs.udp_verdicts import Member, Way
from rocecoll.rendezvous.meeting import Store


def try_roce(
    store: Store,
    rank: int,
    members: Sequence[Member],
    ways: Sequence[Way],
    settings: options.Settings,
) -> Roce:
    """What all ranks have found out, the same on every rank. All call it, after the UDP tests."""
    table = Table(store, rank, len(members))
    transport = settings["transport"] if needs_port(settings) else "auto"
    port = find_port(settings | {"transport": transport}, members[rank].address)
    with contextlib.ExitStack() as stack:
        end = None
        if not port.lack:
            try:
                end = stack.enter_context(RoceEnd(settings, transport, members[rank].address))
            except RuntimeError as error:
                port = replace(port, lack=str(error))
        table.say(
            "roce",
            {
                "transport": transport,
                "required": needs_port(settings),
                "port": asdict(port),
                "address": "" if end is None else end.runtime.address,
                "key": secrets.token_hex(16),
            },
        )
        told = table.hear_all("roce")
        ports = [RocePort(**one["port"]) for one in told]
        addresses = [one["address"] for one in told]
        key = bytes.fromhex(told[0]["key"])
        tried = {} if end is None else _try_in_turn(end, table, rank, addresses, key, ways)
        table.say("over roce", {peer: asdict(measured) for peer, measured in tried.items()})
        results = table.hear_all("over roce", STEP_LIMIT * len(members))
    return Roce(told[0]["transport"], told[0]["required"], ports, _ways(results))


def find_port(settings: options.Settings, address: str) -> RocePort:
    """The port that the core would choose."""
    from rocecoll import _core

    described = _core.describe_devices(
        options.runtime_settings(settings, address, environment.local_ranks() or 1)
    )
    verdicts, remarks = parse_verdicts(described)
    for verdict in verdicts:
        if verdict.chosen:
            name = f"{verdict.device} port {verdict.port}, GID {verdict.gid_index}"
            return RocePort(name, verdict.gid_address or "", "")
    lacks = [f"{verdict.device} port {verdict.port} {verdict.text}" for verdict in verdicts]
    # The rest of a longer remark says how to get a device.
    return RocePort("", "", "; ".join(lacks) or "; ".join(remarks).partition(". ")[0])


def _try_in_turn(
    end: RoceEnd,
    table: Table,
    rank: int,
    addresses: Sequence[str],
    key: bytes,
    ways: Sequence[Way],
) -> dict[int, Measured]:
    """Pairs open over UDP, so those that cannot reach each other over UDP are not tried."""
    open_ways = {(way.source, way.target) for way in ways if way.open}
    tried = {}
    for turn, partners in enumerate(turns(len(addresses)), 1):
        partner = partners[rank]
        pair = sorted((rank, partner))
        if partner < 0 or not addresses[partner]:
            continue
        if {(rank, partner), (partner, rank)} <= open_ways:
            table.say(f"roce turn/{turn}", True)
            # Each earlier turn may have taken its full time, at the peer or at a rank it waited for.
            table.hear(f"roce turn/{turn}", [partner], STEP_LIMIT * turn)
            pair_key = hashlib.sha256(key + repr(pair).encode()).digest()[:16]
            of_pair = [addresses[one] for one in pair]
            tried[partner] = end.exchange(pair, pair.index(rank), of_pair, pair_key)
    return tried


def _ways(results: Sequence[dict[str, Any]]) -> list[RoceWay]:
    """In JSON the ranks, which are keys, have become text."""
    return [
        RoceWay(source, int(target), **fields)
        for source, tried in enumerate(results)
        for target, fields in tried.items()
    ]
