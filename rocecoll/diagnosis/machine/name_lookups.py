# SPDX-License-Identifier: Apache-2.0
"""Whether the name server keeps up with torch's Store, which looks up the name of every rank that connects.

Every rank looks up the Store's name, too. Both ask for IPv4 addresses in the form of IPv6, which an
ordinary line of /etc/hosts does not answer.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Callable

from rocecoll import options
from rocecoll.diagnosis.finding import Finding, Level
from rocecoll.diagnosis.machine.network_interfaces import chosen_address

RANKS = 32
LOOKUPS = 2 * RANKS
LIMIT_S = 2.0  # less than the 5 s after which glibc asks again
Look = Callable[[str], None]


def look_up(address: str) -> None:
    """Looks up the name of an address; that it has none is an answer, too."""
    with contextlib.suppress(OSError):
        socket.getnameinfo((address, 0), socket.NI_NUMERICSERV)


def check_name_lookups(settings: options.Settings) -> list[Finding]:
    names = {as_ipv6("127.0.0.1"): "localhost"}
    with contextlib.suppress(ValueError):  # the address check reports that
        names.setdefault(
            as_ipv6(str(chosen_address(settings).interface.address)), socket.gethostname()
        )
    return [judge_lookups(unanswered(list(names)), names)]


def as_ipv6(address: str) -> str:
    """The address as an IPv6 socket has it."""
    return address if ":" in address else f"::ffff:{address}"


def unanswered(addresses: list[str], look: Look = look_up, limit_s: float = LIMIT_S) -> int:
    """How many of LOOKUPS simultaneous lookups get no answer in time; they go on in their threads."""
    turns = itertools.islice(itertools.cycle(addresses), LOOKUPS)
    threads = [threading.Thread(target=look, args=(one,), daemon=True) for one in turns]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + limit_s
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return sum(thread.is_alive() for thread in threads)


def judge_lookups(missing: int, names: dict[str, str]) -> Finding:
    asked = f"{LOOKUPS} at once, as torch's Store and {RANKS} ranks make when a job starts"
    if missing == 0:
        return Finding("name lookups", Level.OK, f"{asked}, were all answered")
    text = (
        f"of {asked}, {missing} had no answer within {LIMIT_S:g} s: the name server drops them or is "
        "not there. A lost one holds up the start of a job by 5 s; none is made where /etc/hosts has "
        "the addresses of all hosts of the job in this form"
    )
    lines = "".join(rf"{address} {name}\n" for address, name in names.items())
    return Finding(
        "name lookups", Level.WARNING, text, f"printf '{lines}' | sudo tee -a /etc/hosts"
    )
