# SPDX-License-Identifier: Apache-2.0
"""Every option: its variable, what it accepts, its default and what it is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PREFIX = "ROCECOLL_"
# torch's names, and those of csrc/collectives/collective.h.
COLLECTIVES = {
    "all_reduce": "allreduce",
    "reduce": "reduce",
    "reduce_scatter": "reduce_scatter",
    "broadcast": "broadcast",
    "all_gather": "allgather",
    "gather": "gather",
    "scatter": "scatter",
    "all_to_all": "alltoall",
    "barrier": "barrier",
}
FAULTS = ("loss", "duplicate", "reorder", "corrupt", "delay_us", "seed")
REPLACEABLE = ("gloo", "nccl")
SPIN_US = 50.0  # a small all_reduce takes about as long; longer spinning only burns CPU
# Silence after which a rank is lost. Soft-RoCE and many NICs do not tell that a peer has died, so
# that RoCE's users wait for this alone; over UDP the kernel or the peer's host mostly tells at once.
PEER_TIMEOUT_S = {"udp": 10.0, "ud": 4.0, "rc": 4.0, "auto": 4.0}
IB_MTUS = ("256", "512", "1024", "2048", "4096")


@dataclass(frozen=True)
class Option:
    """`parse` takes text and raises ValueError; `accepted` is what its message says."""

    name: str
    parse: Callable[[str], Any]
    default: Any
    unit: str
    accepted: str
    doc: str
    process_wide: bool = False  # has no meaning for one group

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    def read(self, text: str, origin: str) -> Any:
        try:
            return self.parse(text.strip())
        except ValueError:
            raise ValueError(f"{origin}={text!r}: accepted is {self.accepted}") from None


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError
        return value

    return parse


def _number(low: float, high: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = float(text)
        if not low <= value <= high:  # also refuses NaN
            raise ValueError
        return value

    return parse


def _choice(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError
        return text.lower()

    return parse


def _switch(text: str) -> bool:
    return {"1": True, "0": False, "true": True, "false": False, "on": True, "off": False}[
        _choice("1", "0", "true", "false", "on", "off")(text)
    ]


def _or_auto(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: None if text.lower() == "auto" else parse(text)


def _port_range(text: str) -> tuple[int, int]:
    low, separator, high = text.partition("-")
    ports = int(low), int(high if separator else low)
    if ports != (0, 0) and not 1 <= ports[0] <= ports[1] <= 65535:
        raise ValueError
    return ports


def _pairs(text: str, separator: str) -> dict[str, str]:
    pairs = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, found, value = part.partition(separator)
        if not found or not value.strip() or key.strip() in pairs:
            raise ValueError
        pairs[key.strip()] = value.strip()
    return pairs


def _fault(text: str) -> dict[str, str]:
    pairs = _pairs(text, "=")
    for name, value in pairs.items():
        if name not in FAULTS:
            raise ValueError
        limits = {"delay_us": _number(0, 1e9), "seed": _integer(0, 2**64 - 1)}
        limits.get(name, _number(0, 1))(value)
    return pairs


def _replace(text: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.lower().split(",") if name.strip()]
    if not set(names) <= set(REPLACEABLE):
        raise ValueError
    return tuple(sorted(set(names)))


def _algorithm(text: str) -> dict[str, str]:
    pairs = _pairs(text, ":")
    if not set(pairs) <= set(COLLECTIVES):
        raise ValueError
    return {COLLECTIVES[name]: algorithm for name, algorithm in pairs.items()}


TABLE: tuple[Option, ...] = (
    Option(
        "transport",
        _choice(*PEER_TIMEOUT_S),
        "udp",
        "",
        "udp, ud, rc or auto",
        "what carries the data: UDP, RoCE's unreliable datagrams or its reliable connections; auto: "
        "rc between ranks that both have it, else UDP; alike on all ranks",
    ),
    Option(
        "socket_ifname",
        str,
        "",
        "",
        "names or prefixes of interfaces separated by commas, =NAME for exactly one, ^NAME to "
        "exclude, or networks such as 10.0.0.0/8",
        "interface whose address other hosts are told; empty: the one on the route to them",
    ),
    Option(
        "socket_family",
        _choice("auto", "ipv4", "ipv6"),
        "auto",
        "",
        "auto, ipv4 or ipv6",
        "address family; auto: the family of the chosen interface's route",
    ),
    Option(
        "port_range",
        _port_range,
        (0, 0),
        "",
        "LOW-HIGH with 1 <= LOW <= HIGH <= 65535, or 0",
        "UDP ports to take one from, one per process; 0: any free port",
    ),
    Option(
        "udp_max_datagram_bytes",
        _integer(576, 65507),
        8192,
        "bytes",
        "a whole number from 576 to 65507",
        "largest datagram; the MTU of the route to a peer may lower it",
    ),
    Option(
        "udp_offload",
        _switch,
        True,
        "",
        "0 or 1",
        "let the kernel cut and join datagrams (UDP_SEGMENT, UDP_GRO) where it can",
    ),
    Option(
        "socket_buffer_bytes",
        _integer(65536, 1 << 30),
        4 << 20,
        "bytes",
        "a whole number from 65536 to 1073741824",
        "send and receive buffer of the socket; the kernel's limits may lower it",
    ),
    Option(
        "dscp",
        _integer(0, 63),
        0,
        "",
        "a whole number from 0 to 63",
        "differentiated services code point of UDP packets; RoCE's: ib_tc",
    ),
    Option(
        "ecn",
        _switch,
        True,
        "",
        "0 or 1",
        "let queues mark UDP packets (ECN) where they would drop them; 0 where a network drops "
        "packets that say so",
    ),
    Option(
        "ib_hca",
        str,
        "",
        "",
        "names or prefixes of RDMA devices, each with an optional :PORT, separated by commas; "
        "=NAME for exactly one, ^NAME to exclude",
        "RDMA devices that rc, ud and auto may use; empty: the one on the route to the others",
    ),
    Option(
        "ib_gid_index",
        _or_auto(_integer(0, 255)),
        None,
        "",
        "auto, or a whole number from 0 to 255",
        "entry of the port's GID table; auto: RoCE v2 with the address of the interface",
    ),
    Option(
        "ib_tc",
        _integer(0, 255),
        0,
        "",
        "a whole number from 0 to 255",
        "traffic class of RoCE packets: DSCP times 4, plus the ECN bits",
    ),
    Option(
        "ib_sl",
        _integer(0, 7),
        0,
        "",
        "a whole number from 0 to 7",
        "service level of RoCE packets: their priority within the host and on VLANs",
    ),
    Option(
        "ib_timeout",
        _integer(1, 31),
        15,
        "",
        "a whole number from 1 to 31",
        "time until rc sends a packet again: 4.096 us times 2 to this power",
    ),
    Option(
        "ib_retry_cnt",
        _integer(0, 7),
        6,
        "",
        "a whole number from 0 to 7",
        "times that rc sends a packet again before the connection fails; Soft-RoCE takes 7 as for "
        "ever",
    ),
    Option(
        "ib_pkey",
        _integer(0, 65535),
        0,
        "",
        "a whole number from 0 to 65535",
        "index into the port's table of partition keys",
    ),
    Option(
        "ib_mtu",
        lambda text: int(_choice(*IB_MTUS)(text)),
        4096,
        "bytes",
        ", ".join(IB_MTUS[:-1]) + f" or {IB_MTUS[-1]}",
        "largest payload of a RoCE packet; the active MTU of either port may lower it",
    ),
    Option(
        "ib_qps_per_connection",
        _integer(1, 8),
        1,
        "",
        "a whole number from 1 to 8",
        "queue pairs that rc spreads large messages to a rank over",
    ),
    Option(
        "failover",
        _switch,
        True,
        "",
        "0 or 1",
        "go on over UDP with ranks that RoCE no longer reaches; 0: fail",
    ),
    Option(
        "fault",
        _fault,
        {},
        "",
        "loss=, duplicate=, reorder=, corrupt= (0 to 1), delay_us=, seed= separated by commas",
        "faults to inject into what is sent, for tests, e.g. loss=0.05,seed=1",
    ),
    Option(
        "peer_timeout",
        _or_auto(_number(0.1, 86400)),
        None,
        "s",
        "auto, or a number from 0.1 to 86400",
        f"silence after which another rank counts as lost; auto: {PEER_TIMEOUT_S['udp']:g} over udp, "
        f"else {PEER_TIMEOUT_S['rc']:g}",
    ),
    Option(
        "spin_us",
        _or_auto(_number(0, 1e6)),
        None,
        "us",
        "auto, or a number from 0 to 1000000",
        f"busy polling before a wait blocks; auto: {SPIN_US:g} if every local rank has a core, "
        "else 0",
    ),
    Option(
        "eager_bytes",
        _integer(0, 65536),
        0,
        "bytes",
        "a whole number from 0 to 65536",
        "messages up to this size go without asking the receiver; 0: what the transport prefers",
    ),
    Option(
        "lane_bytes",
        _integer(4096, 1 << 30),
        512 << 10,
        "bytes",
        "a whole number from 4096 to 1073741824",
        "large operations are pipelined in pieces of about this size; equal on all ranks",
    ),
    Option(
        "algorithm",
        _algorithm,
        {},
        "",
        f"COLLECTIVE:ALGORITHM separated by commas; collectives: {', '.join(COLLECTIVES)}",
        "algorithms to use instead of those chosen by size; equal on all ranks",
    ),
    Option(
        "trace",
        str,
        "",
        "",
        "a path; %r or {rank} in it is the rank, which else goes before the suffix",
        "file for a Chrome trace of every operation, written at exit",
    ),
    Option(
        "flight_recorder",
        str,
        "",
        "",
        "a path to which the rank is appended",
        "file that torchfrtrace reads, written when a group fails and at exit",
    ),
    Option(
        "replace",
        _replace,
        (),
        "",
        "gloo, nccl or both separated by a comma",
        "backends of torch whose process groups become groups of rocecoll",
        process_wide=True,
    ),
)
