# SPDX-License-Identifier: Apache-2.0
"""Two hosts exchange messages over RoCE, in a small group like that of a job.

The group opens over UDP, and UDP carries it if RoCE fails, so both ends learn the result.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from rocecoll import options

PINGS = 20
PING_BYTES = 64
BULKS = 8
BULK_BYTES = 1 << 20  # packets of every MTU, and many of them
OPERATION_LIMIT_S = 20.0
_PROOF_LIMIT_S = 10.0  # for both ends to know whether RoCE carries them
_LOOK_S = 0.02
_WITHOUT_ROCE = "udp"  # a path
# How the core's message about a pair without RoCE begins.
_INSTEAD = re.compile(
    r".*?(?:\): UDP: |goes on over UDP: |UDP carries the traffic with \S+: |RoCE path to \S+ has )"
)
_YES, _NO, _UNKNOWN = range(3)


@dataclass(frozen=True)
class Measured:
    """`failure` says why RoCE did not carry it, and then the rest is 0."""

    failure: str = ""
    rtt_us: float = 0.0
    bandwidth_mbit_s: float = 0.0


class RoceEnd:
    """This host's end of all exchanges, a context manager. RuntimeError if RoCE cannot be opened."""

    def __init__(self, settings: options.Settings, transport: str, address: str) -> None:
        from rocecoll import _core

        # Between two devices of one host RoCE is to be tried, too, not shared memory.
        chosen = settings | {"transport": transport, "shm": False, "failover": True}
        self.runtime = _core.Runtime(options.runtime_settings(chosen, address, local_ranks=1))

    def __enter__(self) -> RoceEnd:
        return self

    def __exit__(self, *error: object) -> None:
        self.runtime.shutdown()

    def exchange(
        self, ranks: Sequence[int], own: int, addresses: Sequence[str], key: bytes
    ) -> Measured:
        """Exchanges with the other of two `ranks`, which also calls this; `own` is 0 or 1."""
        from rocecoll import _core

        pair = _Pair(self, ranks, own, addresses, key)
        try:
            if not pair.carried():
                return Measured(pair.failure())
            if own == 0:
                measured = pair.measure()
                pair.serve()
            else:
                pair.serve()
                measured = pair.measure()
            return measured if pair.carried() else Measured(pair.failure())
        except _core.Error as error:
            return Measured(str(error))
        finally:
            pair.group.close()


class _Pair:
    """A group of two. Log lines from here on are about it."""

    def __init__(
        self, end: RoceEnd, ranks: Sequence[int], own: int, addresses: Sequence[str], key: bytes
    ) -> None:
        from rocecoll import _core

        self._end, self._peer = end, 1 - own
        self._name = f"doctor {list(ranks)}"
        self._obstacles: list[str] = []
        self._take_log()
        self._obstacles.clear()
        self.group = _core.Group(
            end.runtime, self._name, key, own, addresses, OPERATION_LIMIT_S, ranks
        )

    def carried(self) -> bool:
        """Whether RoCE carries the pair, agreed once both ends know."""
        deadline_s = time.monotonic() + _PROOF_LIMIT_S
        while True:
            own, peer = self._state(deadline_s), bytearray(1)
            sending = self.group.send(bytearray([own]), "uint8", self._peer)
            self.group.recv(peer, "uint8", self._peer).wait()
            sending.wait()
            if _UNKNOWN not in (own, peer[0]):
                return own == peer[0] == _YES
            time.sleep(_LOOK_S)

    def failure(self) -> str:
        self._take_log()
        return self._obstacles[0] if self._obstacles else f"no path within {_PROOF_LIMIT_S:g} s"

    def measure(self) -> Measured:
        """Measures while the peer serves."""
        ping, answer = bytearray(PING_BYTES), bytearray(PING_BYTES)
        rtts_s = []
        for _ in range(PINGS):
            began_s = time.monotonic()
            self.group.send(ping, "uint8", self._peer).wait()
            self.group.recv(answer, "uint8", self._peer).wait()
            rtts_s.append(time.monotonic() - began_s)
        bulk = bytearray(BULK_BYTES)
        began_s = time.monotonic()
        for sending in [self.group.send(bulk, "uint8", self._peer) for _ in range(BULKS)]:
            sending.wait()
        self.group.recv(answer, "uint8", self._peer).wait()
        took_s = time.monotonic() - began_s
        return Measured(
            rtt_us=statistics.median(rtts_s) * 1e6,
            bandwidth_mbit_s=BULKS * BULK_BYTES * 8 / took_s / 1e6,
        )

    def serve(self) -> None:
        ping = bytearray(PING_BYTES)
        for _ in range(PINGS):
            self.group.recv(ping, "uint8", self._peer).wait()
            self.group.send(ping, "uint8", self._peer).wait()
        bulks = [bytearray(BULK_BYTES) for _ in range(BULKS)]
        for receiving in [self.group.recv(bulk, "uint8", self._peer) for bulk in bulks]:
            receiving.wait()
        self.group.send(ping, "uint8", self._peer).wait()

    def _state(self, deadline_s: float) -> int:
        self._take_log()
        if any(
            row["in_use"] and row["path"] != _WITHOUT_ROCE
            for row in self._end.runtime.peer_stats()
            if row["group"] == self._name
        ):
            return _YES
        return _NO if self._obstacles or time.monotonic() > deadline_s else _UNKNOWN

    def _take_log(self) -> None:
        from rocecoll import _core

        while (entry := _core.take_log_entry(0)) is not None:
            if instead := _INSTEAD.match(entry[1]):
                self._obstacles.append(entry[1][instead.end() :])
