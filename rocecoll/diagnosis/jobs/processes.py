# SPDX-License-Identifier: Apache-2.0
"""Asks the processes of this host what they are doing (rocecoll/status.py), and who waits for whom.

Needs no torch. It sees processes of the same user (as root: of all users) in the same network namespace.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rocecoll.diagnosis.jobs.wait_circles import circles, describe
from rocecoll.rendezvous.records import spans
from rocecoll.status import SOCKET_PREFIX, peer_user

SOCKETS = Path("/proc/net/unix")
ANSWER_TIMEOUT_S = 2.0  # for all processes together, which are asked in parallel
MAX_ANSWER_BYTES = 64 << 20
LONG_WAIT_S = 1.0  # an operation that has run for less does not count as waiting
_NAME = re.compile(rf"@({re.escape(SOCKET_PREFIX)}(\d+)-[0-9a-f]+)$")


class UnlistedError(Exception):
    """The kernel does not say which processes listen."""


@dataclass(frozen=True)
class Process:
    """`answer` is what rocecoll.status.snapshot() says there, None where none came in time."""

    pid: int
    answer: dict[str, Any] | None


@dataclass(frozen=True)
class Member:
    """A rank of a group, and the process behind it."""

    pid: int
    state: dict[str, Any]
    peers: list[dict[str, Any]] = field(default_factory=list)  # rocecoll.peer_stats() of the group

    @property
    def rank(self) -> int:
        return int(self.state["global_rank"])

    @property
    def called(self) -> int:
        return int(self.state["collectives"])


@dataclass
class Group:
    name: str
    ranks: int
    members: list[Member] = field(default_factory=list)  # those on this host, by rank


def sockets(listing: str) -> dict[str, int]:
    """Name and process id of our listening sockets in the text of /proc/net/unix."""
    found = {}
    for line in listing.splitlines():
        columns = line.split()
        # Flags 00010000: it listens (__SO_ACCEPTCON); accepted connections have the same name.
        if len(columns) == 8 and columns[3] == "00010000" and (name := _NAME.match(columns[7])):
            found[name[1]] = int(name[2])
    return found


def ask_all(listing: str | None = None) -> list[Process]:
    """Every process that can be seen, by process id, without those of other users."""
    names = sockets(_listing() if listing is None else listing)
    until = time.monotonic() + ANSWER_TIMEOUT_S
    asked = []
    for name, pid in sorted(names.items(), key=lambda one: one[1]):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(ANSWER_TIMEOUT_S)
        try:
            connection.connect(f"\0{name}")
        except OSError:  # it has ended since, or its queue is full: it does not answer
            connection.close()
            continue
        if os.geteuid() not in (0, peer_user(connection)):
            connection.close()
            continue
        asked.append((pid, connection))
    processes = []
    for pid, connection in asked:
        with connection:
            processes.append(Process(pid, _read(connection, until)))
    return processes


def _listing() -> str:
    try:
        return SOCKETS.read_text()
    except OSError as error:
        raise UnlistedError(f"cannot see which processes listen, as {error}: mount /proc") from None


def _read(connection: socket.socket, until: float) -> dict[str, Any] | None:
    received = bytearray()
    try:
        while len(received) <= MAX_ANSWER_BYTES:
            connection.settimeout(max(0.01, until - time.monotonic()))
            part = connection.recv(1 << 16)
            if not part:
                answer = json.loads(received)
                return answer if isinstance(answer, dict) else None
            received += part
    except (OSError, ValueError):  # too late, gone meanwhile, or cut off
        return None
    return None


def groups_of(processes: Iterable[Process]) -> list[Group]:
    """Groups with their ranks on this host, in the order of their names."""
    groups: dict[int, Group] = {}
    for process in processes:
        if process.answer is None:
            continue
        for state in process.answer["groups"]:
            group = groups.setdefault(state["id"], Group(state["name"], state["ranks"]))
            peers = [one for one in process.answer["peers"] if one["group"] == state["name"]]
            group.members.append(Member(process.pid, state, peers))
    for group in groups.values():
        group.members.sort(key=lambda member: member.rank)
    return sorted(groups.values(), key=lambda group: group.name)


@dataclass(frozen=True)
class Forming:
    """A group that a process is making, as rocecoll.rendezvous.forming.snapshot() has it."""

    pid: int
    state: dict[str, Any]

    @property
    def verdict(self) -> str:
        """The ranks that it waits for; empty during the first moments of a wait."""
        if not self.state["waits_for"] or self.state["for_s"] < LONG_WAIT_S:
            return ""
        return (
            f"{spell([self.state['global_rank']])} makes the group, and waits for "
            f"{spell(self.state['waits_for'])} to make it, too"
        )


def forming_of(processes: Iterable[Process]) -> list[Forming]:
    """The groups being made, ordered by group, then rank."""
    found = [
        Forming(process.pid, state)
        for process in processes
        if process.answer is not None
        for state in process.answer.get("forming", [])  # of another version
    ]
    return sorted(found, key=lambda one: (one.state["name"], one.state["global_rank"]))


def verdicts(group: Group) -> list[str]:
    """Which ranks hold up the group, as far as its ranks on this host tell. Empty: none."""
    failed = [member for member in group.members if member.state["failure"]]
    if failed:
        return [f"rank {member.rank} has failed: {member.state['failure']}" for member in failed]
    waiting = [
        member
        for member in group.members
        if member.state["running"] and member.state["running_for_s"] >= LONG_WAIT_S
    ]
    if not waiting:
        return []
    longest = max(waiting, key=lambda member: float(member.state["running_for_s"]))
    most = max(member.called for member in group.members)
    behind = [member for member in group.members if member.called < most]
    lines = []
    for member in behind:
        if member in waiting:
            doing = f"still runs {member.state['running']}"
        else:
            doing = "is in none of this group's operations"
        plural = "" if member.called == 1 else "s"
        lines.append(
            f"{spell([member.rank])} has called {member.called} collective{plural} where others have "
            f"called {most}, and {doing}: see what process {member.pid} does (py-spy dump --pid "
            f"{member.pid})"
        )
    lines += [describe(circle) for circle in circles(member.state for member in waiting)]
    here = {member.rank for member in group.members}
    elsewhere = sorted({rank for m in waiting for rank in m.state["waits_for"] if rank not in here})
    if not lines and elsewhere:
        lines.append(
            f"{spell([longest.rank])} waits for {spell(elsewhere)} on another host: ask there, too"
        )
    return lines


def spell(ranks: Sequence[int]) -> str:
    """rank 2; ranks 0-3 5."""
    return f"rank{'s' if len(ranks) > 1 else ''} {spans(sorted(ranks))}"
