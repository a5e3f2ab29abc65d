# SPDX-License-Identifier: Apache-2.0
"""Every option: one table, and the only place that reads the environment.

An option comes from init_process_group(pg_options=rocecoll.Options(...)), else from its variable
ROCECOLL_<NAME>, else it has its default.
"""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

PREFIX = "ROCECOLL_"
# torch's names, and those of csrc/collectives/program.h.
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
HEARTBEAT_S = 0.5

Settings = dict[str, Any]


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


def _spin(text: str) -> float | None:
    return None if text.lower() == "auto" else _number(0, 1e6)(text)


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
        "transport", _choice("udp"), "udp", "", "udp", "what carries the packets between processes"
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
        "fault",
        _fault,
        {},
        "",
        "loss=, duplicate=, reorder=, corrupt= (0 to 1), delay_us=, seed= separated by commas",
        "faults to inject into what is sent, for tests, e.g. loss=0.05,seed=1",
    ),
    Option(
        "peer_timeout",
        _number(0.1, 86400),
        10.0,
        "s",
        "a number from 0.1 to 86400",
        "silence after which another rank counts as lost",
    ),
    Option(
        "spin_us",
        _spin,
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
_BY_NAME = {option.name: option for option in TABLE}


def as_texts(values: Mapping[str, object]) -> dict[str, str]:
    """What rocecoll.Options(**values) keeps: checked, as a variable would say it."""
    texts = {}
    for name, value in values.items():
        option = _BY_NAME.get(name)
        if option is None or option.process_wide:
            hint = _suggestion(name, _BY_NAME)
            if option is not None:
                hint = f"; set {option.variable} for the whole process"
            raise TypeError(f"rocecoll.Options has no option {name!r}{hint}")
        texts[name] = _as_text(value)
        option.read(texts[name], name)
    return texts


def parsed(texts: Mapping[str, str]) -> Settings:
    return {name: _BY_NAME[name].read(text, name) for name, text in texts.items()}


def _as_text(value: object) -> str:
    """The textual form of a value given in Python, so that there is one parser."""
    if value is None:
        return "auto"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, tuple | list):
        return "-".join(str(item) for item in value)
    return str(value)


def _suggestion(name: str, known: Mapping[str, object]) -> str:
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {nearest[0]}?" if nearest else ""


def resolve(chosen: Mapping[str, str] | None = None) -> Settings:
    """Every option's value; `chosen` are the settings of a rocecoll.Options.

    Raises ValueError for a bad one, warns of an unknown variable.
    """
    variables = {option.variable: option for option in TABLE}
    for name in os.environ:
        if name.startswith(PREFIX) and name not in variables:
            hint = _suggestion(name, variables)
            warnings.warn(f"rocecoll does not know {name}{hint}", stacklevel=2)
    settings = {option.name: _value(option) for option in TABLE}
    return settings | parsed(chosen or {})


def _value(option: Option) -> Any:
    if option.variable in os.environ:
        return option.read(os.environ[option.variable], option.variable)
    return option.default


def replaced_backends() -> frozenset[str]:
    """The backends of torch whose groups are to be ours."""
    return frozenset(_value(_BY_NAME["replace"]))


def runtime_settings(settings: Settings, host: str, local_ranks: int) -> dict[str, str]:
    """The settings under the core's names (RuntimeOptionNames in csrc/runtime/runtime.h)."""
    spin_us = settings["spin_us"]
    if spin_us is None:
        spin_us = SPIN_US if local_ranks <= len(os.sched_getaffinity(0)) else 0
    low, high = settings["port_range"]
    # Several heartbeats must fit into the silence that counts as death.
    heartbeat = min(HEARTBEAT_S, settings["peer_timeout"] / 4)
    values: dict[str, object] = {
        "transport": settings["transport"],
        "host": host,
        "port_low": low,
        "port_high": high,
        "udp.max_datagram_bytes": settings["udp_max_datagram_bytes"],
        "udp.segmentation_offload": int(settings["udp_offload"]),
        "udp.socket_buffer_bytes": settings["socket_buffer_bytes"],
        "connection.peer_timeout_us": round(settings["peer_timeout"] * 1e6),
        "connection.heartbeat_interval_us": round(heartbeat * 1e6),
        "messenger.eager_bytes": settings["eager_bytes"],
        "engine.lane_bytes": settings["lane_bytes"],
        "progress.spin_us": round(spin_us),
    }
    values |= {f"fault.{name}": value for name, value in settings["fault"].items()}
    return {name: str(value) for name, value in values.items()}


def master_address() -> str | None:
    """The host that the launcher named as meeting point."""
    return os.environ.get("MASTER_ADDR") or None


def launcher_variables() -> dict[str, str]:
    """What rocecoll/launchers.py looks at."""
    prefixes = ("OMPI_", "PMI", "MPI_", "SLURM_", "MASTER_")
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    return {
        name: value
        for name, value in os.environ.items()
        if name in names or name.startswith(prefixes)
    }


def local_ranks(group_ranks: int) -> int:
    """Ranks on this machine; where no launcher tells, all of the group, so as not to spin."""
    for variable in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"):
        value = os.environ.get(variable, "")
        if value.isdigit() and int(value) > 0:
            return int(value)
    return group_ranks
