# SPDX-License-Identifier: Apache-2.0
"""What --limit perftest measures, compared with what, and which ratio is good enough."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rocecoll.bench.sizes import KIB, MIB


class Transport(str, Enum):
    rc = "rc"
    ud = "ud"


@dataclass(frozen=True)
class Case:
    """One measurement, of `bytes` a message. rocecoll must be `bar` times as good as the other."""

    name: str
    sizes_bytes: tuple[int, ...]
    bar: float
    is_rate: bool  # bytes a second, else seconds a call

    def ratio(self, ours: float, theirs: float) -> float:
        return ours / theirs if self.is_rate else theirs / ours


STREAM = Case("send and recv", (64 * KIB, MIB), bar=0.8, is_rate=True)
ALL_REDUCE = Case("all_reduce", (8, KIB, 64 * KIB, MIB, 16 * MIB), bar=1.0, is_rate=False)
PING_PONG = Case("send to recv, one way", (8,), bar=0.77, is_rate=False)  # 1.3 times as long
CASES = (STREAM, ALL_REDUCE, PING_PONG)

OTHERS = {
    (STREAM.name, Transport.rc): "ib_write_bw",
    (STREAM.name, Transport.ud): "ib_send_bw -c UD",
    (PING_PONG.name, Transport.rc): "ib_write_lat",
    (PING_PONG.name, Transport.ud): "ib_send_lat -c UD",
    (ALL_REDUCE.name, Transport.rc): "OpenMPI, UCX rc_verbs",
    (ALL_REDUCE.name, Transport.ud): "OpenMPI, UCX ud_verbs",
}


# The bytes of all messages of one size in a block: about a second on one emulated processor.
STREAM_BYTES = 64 * MIB
ROUND_TRIPS = 1000  # of the ping-pong


def all_reduce_calls(size_bytes: int) -> int:
    return {8: 200, KIB: 200, 64 * KIB: 100, MIB: 20, 16 * MIB: 4}[size_bytes]
