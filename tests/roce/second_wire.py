# SPDX-License-Identifier: Apache-2.0
"""A second wire beside the bed's, in another subnet, with no way between the two.

It is made as scripts/softroce_bed/guest_network.sh makes the first, and taken away again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import bed
import pytest

ENDS = (("rxc", "vc", "10.2.0.1"), ("rxd", "vd", "10.2.0.2"))


@contextmanager
def second_wire() -> Iterator[list[bed.End]]:
    """Its two ends, with rxe devices."""
    if len(bed.ends()) != 2:
        pytest.skip("both ends of the wire have to be in this guest")
    answers = [of_interface(end.interface, "arp_ignore") for end in bed.ends()]
    before = [path.read_text() for path in answers]
    try:
        # An end answers for its own address only. Otherwise this host does so for all it has, and
        # one wire seems to lead to the other.
        for path in answers:
            path.write_text("1")
        yield make()
    finally:
        for path, value in zip(answers, before, strict=True):
            path.write_text(value)
        remove()


def of_interface(interface: str, name: str) -> Path:
    return Path(f"/proc/sys/net/ipv4/conf/{interface}/{name}")


def make() -> list[bed.End]:
    mtu = Path(f"/sys/class/net/{bed.ends()[0].interface}/mtu").read_text().strip()
    (_, here, _), (_, there, _) = ENDS
    bed.run("ip", "link", "add", here, "type", "veth", "peer", "name", there)
    made = []
    for (device, interface, own), (_, _, peer) in zip(ENDS, reversed(ENDS), strict=True):
        bed.run("ip", "address", "add", f"{own}/32", "dev", interface)
        bed.run("ip", "link", "set", interface, "mtu", mtu, "up")
        for name, value in (("rp_filter", "0"), ("accept_local", "1"), ("arp_ignore", "1")):
            of_interface(interface, name).write_text(value)
        bed.run("ip", "route", "add", peer, "dev", interface, "src", own)
        bed.run("rdma", "link", "add", device, "type", "rxe", "netdev", interface)
        made.append(bed.End(device, interface, own, bed.wait_for_gid(device, own)))
    introduce(made)
    for end in made:
        bed.wait_until(lambda device=end.device: bed.is_active(device), "the port is up")
    return made


def introduce(ends: Sequence[bed.End]) -> None:
    """Each knows the other's hardware address, without asking for it."""
    for end, other in itertools.permutations(ends, 2):
        hardware = Path(f"/sys/class/net/{other.interface}/address").read_text().strip()
        bed.run("ip", "neigh", "replace", other.address, "lladdr", hardware, "dev", end.interface)


def remove() -> None:
    """What is left of it: a test may have taken away a part."""
    for device, _, _ in ENDS:
        if Path(f"/sys/class/infiniband/{device}").exists():
            bed.run("rdma", "link", "delete", device)
    if Path(f"/sys/class/net/{ENDS[0][1]}").exists():
        bed.run("ip", "link", "delete", ENDS[0][1])
