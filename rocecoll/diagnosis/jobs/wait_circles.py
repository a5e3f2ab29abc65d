# SPDX-License-Identifier: Apache-2.0
"""Ranks that wait for each other in a circle, each in a send or receive that the next one never matches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

State = dict[str, Any]  # what a rank tells of a group, as rocecoll.status.snapshot() has it
_TOWARDS = {"send": "sends to", "recv": "receives from"}


def circles(states: Iterable[State]) -> list[list[State]]:
    """All circles, each beginning with its lowest rank. A send with its matching receive is none."""
    waiting = {
        int(state["global_rank"]): state
        for state in states
        if state.get("message") in _TOWARDS and len(state["waits_for"]) == 1
    }
    found = []
    seen: set[int] = set()
    for start in sorted(waiting):
        path: list[int] = []
        rank = start
        while rank in waiting and rank not in seen:
            seen.add(rank)
            path.append(rank)
            rank = int(waiting[rank]["waits_for"][0])
        if rank in path:
            circle = path[path.index(rank) :]
            first = circle.index(min(circle))
            members = [waiting[one] for one in circle[first:] + circle[:first]]
            if not _match(members):
                found.append(members)
    return found


def _match(members: list[State]) -> bool:
    """Whether they are a send and the receive that it is for."""
    kinds = {state["message"] for state in members}
    return len(members) == 2 and len(kinds) == 2 and members[0]["tag"] == members[1]["tag"]


def describe(circle: list[State]) -> str:
    """Which rank waits for which, once around the circle, and what to do."""
    around = ", ".join(
        f"{'rank ' + str(state['global_rank']) if index == 0 else 'which'} "
        f"{_TOWARDS[state['message']]} rank {state['waits_for'][0]} (tag {state['tag']})"
        for index, state in enumerate(circle)
    )
    kinds = {state["message"] for state in circle}
    if kinds == {"send"}:
        cure = "let one of them receive first, or use isend() or batch_isend_irecv()"
    elif kinds == {"recv"}:
        cure = "let one of them send first"
    else:
        cure = "call sends and receives in the same order at both ends, with the same tags"
    return f"ranks wait for each other in a circle: {around}; {cure}"
