# SPDX-License-Identifier: Apache-2.0
"""Which hosts or pairs lack RoCE, judged from the tests of all pairs that have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rocecoll.diagnosis.finding import Finding, Level
from rocecoll.diagnosis.pairs.udp_verdicts import Member

_PEER_SAYS = "the peer says: "
_SILENT = ("no answer", "retries exceeded")  # how the core calls it


@dataclass(frozen=True)
class RocePort:
    """The port that a host would use, or in `lack` why it can use none."""

    name: str  # "mlx5_0 port 1, GID 3"
    address: str  # the address of that GID
    lack: str


@dataclass(frozen=True)
class RoceWay:
    """From one rank to another, both with a port; `failure` says why it does not work."""

    source: int
    target: int
    failure: str
    rtt_us: float
    bandwidth_mbit_s: float

    @property
    def works(self) -> bool:
        return not self.failure


@dataclass(frozen=True)
class Roce:
    """What all ranks have found out, by rank; `required`: a job refuses to start without a port."""

    transport: str
    required: bool
    ports: list[RocePort]
    ways: list[RoceWay]


def judge_roce(members: Sequence[Member], roce: Roce) -> list[Finding]:
    """No findings if no host has a port and none is required."""
    with_port = [member for member in members if not roce.ports[member.rank].lack]
    if not with_port and not roce.required:
        return []
    level = Level.PROBLEM if roce.required else Level.WARNING if len(with_port) > 1 else Level.NOTE
    findings = [_lack(member, roce, level) for member in members if roce.ports[member.rank].lack]
    failed = [way for way in roce.ways if not way.works]
    blamed: set[int] = set()
    for member in with_port:
        own = [way for way in roce.ways if member.rank in (way.source, way.target)]
        others_work = any(way.works for way in roce.ways if way not in own)
        if others_work and own and not any(way.works for way in own):
            blamed.add(member.rank)
            findings.append(_failing_host(member, own, roce))
    for way in failed:
        if way.source < way.target and blamed.isdisjoint((way.source, way.target)):
            findings.append(_failing_pair(members[way.source], members[way.target], roce))
    if roce.ways and not failed:
        ranks = f"all {len(with_port)} hosts" + (" that have a port" if findings else "")
        text = f"{ranks} reach each other over RoCE"
        findings.append(Finding("RoCE", Level.OK, text))
    return findings


def _lack(member: Member, roce: Roce, level: Level) -> Finding:
    text = f"UDP carries what goes to and from {member}"
    if roce.required:
        text = f"a job over {roce.transport} does not start on {member}"
    cure = f"rocecoll devices  # on {member.host_name}"
    return Finding("RoCE", level, f"{text}: {roce.ports[member.rank].lack}", cure)


def _failing_host(member: Member, own: Sequence[RoceWay], roce: Roce) -> Finding:
    reason = _reason(own)
    port = roce.ports[member.rank]
    text = (
        f"{member} reaches no other host over RoCE, while others do and UDP works "
        f"({port.name}, {port.address}): {reason}"
    )
    return Finding("RoCE", Level.WARNING, text, _cure(member, roce))


def _failing_pair(one: Member, other: Member, roce: Roce) -> Finding:
    ends = {one.rank, other.rank}
    reason = _reason([way for way in roce.ways if {way.source, way.target} == ends])
    ports = [roce.ports[member.rank] for member in (one, other)]
    text = (
        f"{one} and {other} do not reach each other over RoCE, while UDP works "
        f"({ports[0].name} and {ports[1].name}): {reason}"
    )
    if ":" in ports[0].address and ":" not in ports[1].address:
        ports.reverse()
    if (":" in ports[1].address) != (":" in ports[0].address):
        text += f"; {ports[0].address} is IPv4, {ports[1].address} is IPv6"
        cure = "export ROCECOLL_SOCKET_FAMILY=ipv4  # on both, and no ROCECOLL_IB_GID_INDEX"
        return Finding("RoCE", Level.WARNING, text, cure)
    return Finding("RoCE", Level.WARNING, text, _cure(one, roce))


def _reason(ways: Sequence[RoceWay]) -> str:
    """The failure that one end found out itself, if there is one."""
    said = sorted((way.failure for way in ways), key=lambda text: text.startswith(_PEER_SAYS))
    reason = said[0].removeprefix(_PEER_SAYS)
    if reason.startswith(_SILENT):  # and UDP shows that host and process are alive
        reason = reason.partition(";")[0]
        reason += "; a switch, VLAN or firewall stops its packets (UDP port 4791)"
    return reason


def _cure(member: Member, roce: Roce) -> str:
    """The command that tries the same without rocecoll."""
    device, _, rest = roce.ports[member.rank].name.partition(" ")
    gid_index = rest.rpartition(" ")[2]
    return (
        f"ib_write_bw -d {device} -x {gid_index}  # on {member.host_name}; on the other host the "
        f"same of its own device and {roce.ports[member.rank].address}"
    )
