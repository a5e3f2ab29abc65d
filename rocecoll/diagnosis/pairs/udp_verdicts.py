# SPDX-License-Identifier: Apache-2.0
"""Which hosts or directions are at fault, judged from the measurements of all pairs of hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rocecoll.diagnosis.finding import Finding, Level


@dataclass(frozen=True)
class Member:
    """A host that takes part. `address` and `port` are where its UDP socket listens."""

    rank: int
    host_name: str
    host_id: str
    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.host_name} (rank {self.rank}, {self.address})"


@dataclass(frozen=True)
class Way:
    """One direction, from rank to rank. `refusal` is the error with which the sender's kernel refused.

    `arrived` are the requests that the target saw, `echoed` those whose echo came back;
    `mtu_bytes` is None where no size got through, and `rtt_us` where no echo came.
    """

    source: int
    target: int
    sent: int
    arrived: int
    echoed: int
    refusal: str
    rtt_us: float | None
    mtu_bytes: int | None
    route_mtu_bytes: int | None
    bandwidth_mbit_s: float

    @property
    def open(self) -> bool:
        return self.arrived > 0


_CURE = "rocecoll doctor  # on {}; then ROCECOLL_SOCKET_IFNAME, or open its UDP ports"


def judge(members: Sequence[Member], ways: Sequence[Way]) -> list[Finding]:
    findings = _same_addresses(members)
    closed = [way for way in ways if not way.open]
    blamed: set[int] = set()
    for member in members:
        if len(members) > 2 and (fault := _fault_of(member, ways)):
            blamed.add(member.rank)
            cure = _CURE.format(member.host_name)
            findings.append(Finding("pairs", Level.PROBLEM, fault, cure))
    for way in closed:
        if blamed.isdisjoint((way.source, way.target)):
            findings.append(_closed_way(members[way.source], members[way.target], way))
    for way in ways:
        if way.open:
            findings += _worse_than_expected(members[way.source], members[way.target], way)
    if not findings:
        text = f"all {len(members)} hosts reach each other on UDP"
        findings.append(Finding("pairs", Level.OK, text))
    return findings


def _same_addresses(members: Sequence[Member]) -> list[Finding]:
    """Such as two hosts with the same container bridge: each would talk to itself."""
    findings = []
    first: dict[str, Member] = {}
    for member in members:
        other = first.setdefault(member.address, member)
        if other.host_id != member.host_id:
            text = f"{other} and {member} offer the same address: one takes the wrong interface"
            cure = "export ROCECOLL_SOCKET_IFNAME=^docker  # or the name of the right one"
            findings.append(Finding("pairs", Level.PROBLEM, text, cure))
    return findings


def _fault_of(member: Member, ways: Sequence[Way]) -> str:
    """A fault of the member towards all others, which replaces the findings about its pairs."""
    inward = [way for way in ways if way.target == member.rank]
    outward = [way for way in ways if way.source == member.rank]
    if any(way.open for way in inward) and any(way.open for way in outward):
        return ""
    why = "a firewall there, or the wrong interface"
    if not any(way.open for way in [*inward, *outward]):
        return f"{member} exchanges UDP with no other host: {why}"
    if not any(way.open for way in inward):
        return f"{member} cannot be reached from any other host on UDP: {why}"
    refusal = next((way.refusal for way in outward if way.refusal), "")
    return f"nothing that {member} sends on UDP arrives anywhere: {refusal or why}"


def _closed_way(source: Member, target: Member, way: Way) -> Finding:
    why = "firewall or wrong interface"
    text = f"{target} cannot be reached from {source} on UDP: {way.refusal or why}"
    host = source if way.refusal else target
    return Finding("pairs", Level.PROBLEM, text, _CURE.format(host.host_name))


def _worse_than_expected(source: Member, target: Member, way: Way) -> list[Finding]:
    findings = []
    name = f"from {source} to {target}"
    if way.arrived < way.sent:
        text = f"{name}: {way.sent - way.arrived} of {way.sent} packets were lost"
        findings.append(Finding("pairs", Level.WARNING, text))
    if way.mtu_bytes is not None and way.mtu_bytes < (way.route_mtu_bytes or 0):
        text = (
            f"{name}: packets of {way.mtu_bytes} bytes get through, {source.host_name}'s interface "
            f"sends up to {way.route_mtu_bytes}: MTUs on the way differ, which rocecoll finds out "
            "for each path"
        )
        findings.append(Finding("pairs", Level.WARNING, text))
    if way.mtu_bytes is None and way.echoed:
        text = f"{name}: short packets get through, those of 1200 bytes do not: the MTU on the way"
        findings.append(Finding("pairs", Level.PROBLEM, text))
    return findings
