# SPDX-License-Identifier: Apache-2.0
"""The values of the options in this process: the only place that reads the environment.

An option comes from init_process_group(pg_options=rocecoll.Options(...)), else from its variable
ROCECOLL_<NAME>, else it has its default.
"""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Mapping
from typing import Any

from rocecoll.option_table import PEER_TIMEOUT_S, PREFIX, SPIN_US, TABLE, Option

HEARTBEAT_S = 0.5
Settings = dict[str, Any]
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
    peer_timeout = settings["peer_timeout"]
    if peer_timeout is None:
        peer_timeout = PEER_TIMEOUT_S[settings["transport"]]
    # Several heartbeats must fit into the silence that counts as death.
    heartbeat = min(HEARTBEAT_S, peer_timeout / 4)
    values: dict[str, object] = {
        "transport": settings["transport"],
        "host": host,
        "port_low": low,
        "port_high": high,
        "udp.max_datagram_bytes": settings["udp_max_datagram_bytes"],
        "udp.segmentation_offload": int(settings["udp_offload"]),
        "udp.socket_buffer_bytes": settings["socket_buffer_bytes"],
        "udp.dscp": settings["dscp"],
        "udp.ecn": int(settings["ecn"]),
        "connection.peer_timeout_us": round(peer_timeout * 1e6),
        "connection.heartbeat_interval_us": round(heartbeat * 1e6),
        "ib.hca": settings["ib_hca"],
        "ib.traffic_class": settings["ib_tc"],
        "ib.service_level": settings["ib_sl"],
        "ib.timeout": settings["ib_timeout"],
        "ib.retry_count": settings["ib_retry_cnt"],
        "ib.pkey_index": settings["ib_pkey"],
        "ib.max_mtu_bytes": settings["ib_mtu"],
        "ib.queue_pairs_per_connection": settings["ib_qps_per_connection"],
        "failover": int(settings["failover"]),
        "messenger.eager_bytes": settings["eager_bytes"],
        "engine.lane_bytes": settings["lane_bytes"],
        "progress.spin_us": round(spin_us),
    }
    if settings["ib_gid_index"] is not None:
        values["ib.gid_index"] = settings["ib_gid_index"]
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
