# SPDX-License-Identifier: Apache-2.0
"""The wire of every bed: its two ends, and how a command inside learns about them."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address

from softroce_bed.bed import Job

# RoCE takes the largest power of two that fits the interface with its headers: 4096 bytes.
MTU_BYTES = 4200


@dataclass(frozen=True)
class End:
    device: str
    interface: str
    ipv4: str
    ipv6: str


ENDS = (
    End("rxa", "va", "10.1.0.1", "fd10::1"),
    End("rxb", "vb", "10.1.0.2", "fd10::2"),
)


def gid(address: str) -> str:
    """The GID as sysfs spells it."""
    return IPv6Address(address if ":" in address else f"::ffff:{address}").exploded


def variables(bed: str, job: Job, guest: int) -> dict[str, str]:
    """The variables in a command's environment; docs/softroce.md lists them.

    Both ends are in the only guest, or one in each of two. The addresses are always those of both ends.
    """
    here = ENDS if job.guests == 1 else (ENDS[guest],)
    return {
        "SOFTROCE_BED": bed,
        "SOFTROCE_GUESTS": str(job.guests),
        "SOFTROCE_GUEST": str(guest),
        "SOFTROCE_DEVICES": " ".join(end.device for end in here),
        "SOFTROCE_INTERFACES": " ".join(end.interface for end in here),
        "SOFTROCE_ADDRESSES": " ".join(end.ipv4 for end in ENDS),
        "SOFTROCE_ADDRESSES6": " ".join(end.ipv6 for end in ENDS),
        "SOFTROCE_GIDS": " ".join(gid(end.ipv4) for end in ENDS),
        "SOFTROCE_GIDS6": " ".join(gid(end.ipv6) for end in ENDS),
        "SOFTROCE_MTU_BYTES": str(MTU_BYTES),
        "SOFTROCE_NETEM": job.netem,
    }
