# SPDX-License-Identifier: Apache-2.0
"""The option table: where values come from, what is refused, and what the core is told."""

from __future__ import annotations

import logging
import os
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from said_messages import modules_of_a_job

from rocecoll import Options, _core, environment, options
from rocecoll._core import Option
from rocecoll.logs import announcements
from rocecoll.logs.announcements import tell_aliases
from rocecoll.options import (
    PREFIX,
    AliasNote,
    Given,
    alias_notes,
    given,
    replaced_backends,
    resolve,
    runtime_settings,
    table,
    variable,
)

pytestmark = pytest.mark.quick


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith((PREFIX, "NCCL_", "GLOO_")) or "LOCAL" in name:
            monkeypatch.delenv(name)


GOOD = {
    "transport": ("UDP", "udp"),
    "shm": ("off", False),
    "socket_ifname": ("^docker,lo", "^docker,lo"),
    "socket_family": ("ipv6", "ipv6"),
    "port_range": ("50000-50100", (50000, 50100)),
    "udp_max_datagram_bytes": ("1400", 1400),
    "udp_offload": ("off", False),
    "socket_buffer_bytes": ("1048576", 1 << 20),
    "dscp": ("26", 26),
    "ecn": ("off", False),
    "congestion": ("cubic", "cubic"),
    "ib_hca": ("=mlx5_0:1,mlx5_1", "=mlx5_0:1,mlx5_1"),
    "ib_gid_index": ("3", 3),
    "ib_tc": ("106", 106),
    "ib_sl": ("3", 3),
    "ib_timeout": ("18", 18),
    "ib_retry_cnt": ("7", 7),
    "ib_pkey": ("1", 1),
    "ib_mtu": ("1024", 1024),
    "ib_qps_per_connection": ("4", 4),
    "ib_ece": ("0", False),
    "ib_adaptive_routing": ("1", True),
    "failover": ("0", False),
    "fault": ("loss=0.05, seed=7", "loss=0.05, seed=7"),
    "peer_timeout": ("2.5", 2.5),
    "spin_us": ("12.5", 12.5),
    "eager_bytes": ("4096", 4096),
    "lane_bytes": ("65536", 65536),
    "staging_bytes": ("33554432", 33554432),
    "algorithm": (
        "barrier:dissemination, all_reduce:ring",
        "all_reduce:ring,barrier:dissemination",
    ),
    "trace": ("traces/%r.json", "traces/%r.json"),
    "flight_recorder": ("dumps/rank_", "dumps/rank_"),
    "debug": ("INFO", "info"),
    "replace": ("NCCL, gloo", "gloo,nccl"),
}
BAD = {
    "transport": ["tcp", ""],
    "shm": ["maybe", ""],
    "socket_family": ["ipv5"],
    "port_range": ["100", "1-", "5-3", "1-70000", "0-7", "x"][1:],
    "udp_max_datagram_bytes": ["575", "65508", "1.5", "-1", ""],
    "udp_offload": ["2", "perhaps"],
    "socket_buffer_bytes": ["1", "4M"],
    "dscp": ["64", "-1", "AF31"],
    "ecn": ["2", "perhaps"],
    "congestion": ["bbr", "1"],
    "ib_gid_index": ["-1", "256", "best"],
    "ib_tc": ["256", "-1"],
    "ib_sl": ["8"],
    "ib_timeout": ["0", "32", "14 ms"],
    "ib_retry_cnt": ["8", "-1"],
    "ib_pkey": ["0xffff", "65536"],
    "ib_mtu": ["1500", "8192", "1k"],
    "ib_qps_per_connection": ["0", "9"],
    "ib_ece": ["2", "perhaps"],
    "ib_adaptive_routing": ["2", "perhaps"],
    "failover": ["maybe"],
    "fault": ["loss", "loss=2", "loss=nan", "rain=1", "loss=0.1,loss=0.2", "delay_us=-1"],
    "peer_timeout": ["0", "inf", "nan", "soon"],
    "spin_us": ["-1", "often"],
    "eager_bytes": ["-1", "65537"],
    "lane_bytes": ["0"],
    "staging_bytes": ["1048575", "64M"],
    "algorithm": ["ring", "all_redcue:ring", "all_reduce:", "all_reduce:rings"],
    "debug": ["", "verbose", "1"],
    "replace": ["mpi", "gloo;nccl"],
}


def test_every_option_has_examples_here() -> None:
    assert sorted(table()) == sorted(GOOD)
    assert set(BAD) == set(GOOD) - {
        "socket_ifname",
        "ib_hca",
        "trace",
        "flight_recorder",
    }  # any text


@pytest.mark.parametrize("option", table().values(), ids=lambda option: option.name)
def test_variable_sets_the_value(option: Option, monkeypatch: pytest.MonkeyPatch) -> None:
    text, value = GOOD[option.name]
    assert resolve()[option.name] == option.default != value or option.name in ("transport", "shm")
    monkeypatch.setenv(variable(option.name), f" {text} ")
    assert resolve()[option.name] == value


@pytest.mark.parametrize(("name", "text"), [(n, t) for n, texts in BAD.items() for t in texts])
def test_bad_value_names_variable_value_and_what_is_accepted(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable(name), text)
    message = f"{variable(name)}={text!r}: accepted is {table()[name].accepted}"
    with pytest.raises(ValueError, match=re.escape(message)):
        resolve()


@pytest.mark.parametrize(
    ("chosen", "shared"),
    [
        ({}, True),
        ({"transport": "auto"}, True),
        ({"transport": "udp"}, False),
        ({"transport": "udp", "shm": True}, True),
        ({"fault": "loss=0.1"}, False),
        ({"shm": False}, False),
    ],
)
def test_shared_memory_is_used_unless_udp_is_asked_for_by_name(
    chosen: dict[str, Any], shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert resolve(Options(**chosen).values)["shm"] is shared
    for name, value in chosen.items():
        monkeypatch.setenv(variable(name), str(value))
    assert resolve()["shm"] is shared


def test_argument_wins_over_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCECOLL_EAGER_BYTES", "1")
    assert resolve(Options(eager_bytes=2).values)["eager_bytes"] == 2


def test_arguments_may_be_python_values() -> None:
    chosen = Options(port_range=(5, 6), udp_offload=False, spin_us=None, peer_timeout=3).values
    assert chosen == {
        "port_range": (5, 6),
        "udp_offload": False,
        "spin_us": None,
        "peer_timeout": 3,
    }


def test_arguments_are_kept_typed_whatever_they_come_as() -> None:
    assert Options(lane_bytes="65536", failover="on") == Options(lane_bytes=65536, failover=True)
    assert Options(port_range="7", peer_timeout=3).values == {
        "port_range": (7, 7),
        "peer_timeout": 3.0,
    }
    assert Options(trace=Path("a/b")).values == {"trace": "a/b"}
    assert Options(spin_us="auto").values == {"spin_us": None}


def test_a_value_that_is_no_text_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCECOLL_TRACE", os.fsdecode(b"/tmp/caf\xe9"))
    with pytest.raises(ValueError, match=r"ROCECOLL_TRACE=.*accepted is text in UTF-8"):
        resolve()


def test_bad_arguments() -> None:
    with pytest.raises(TypeError, match="no option 'eager_byte'; did you mean eager_bytes"):
        Options(eager_byte=1)
    with pytest.raises(ValueError, match="lane_bytes='0'"):
        Options(lane_bytes=0)
    with pytest.raises(ValueError, match="lane_bytes='-1'"):
        Options(lane_bytes=-1)
    with pytest.raises(ValueError, match="port_range='5-70000'"):
        Options(port_range=(5, 70000))
    with pytest.raises(TypeError, match="no option 'host'"):
        Options(host="::1")
    with pytest.raises(TypeError, match="no option 'replace'; set ROCECOLL_REPLACE for the whole"):
        Options(replace="gloo")


def test_algorithms_that_do_not_exist_are_refused_with_those_that_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there_are = "all_reduce has no algorithm 'rings', it has recursive_doubling, halving_doubling, "
    there_are += "circulant, ring, host_leaders and host_columns"
    with pytest.raises(ValueError, match=rf"^algorithm='all_reduce:rings': .*; {there_are}$"):
        Options(algorithm="all_reduce:rings")
    with pytest.raises(
        ValueError, match=r"accepted is .*collectives: all_reduce, reduce, .*barrier$"
    ):
        Options(algorithm="all_redcue:ring")
    monkeypatch.setenv("ROCECOLL_ALGORITHM", "barrier:dissemination,all_reduce:rings")
    with pytest.raises(ValueError, match=rf"^ROCECOLL_ALGORITHM='barrier.*; {there_are}$"):
        resolve()


def test_what_must_agree_is_said_where_the_option_is_explained() -> None:
    said = {name for name, option in table().items() if "same on all ranks" in option.doc}
    assert said == set(options.agreed(resolve()))


def test_replaced_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    assert replaced_backends() == set()
    monkeypatch.setenv("ROCECOLL_REPLACE", "gloo,nccl")
    assert replaced_backends() == {"gloo", "nccl"}


def test_unknown_variable_warns_with_the_nearest_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCECOLL_SOKET_IFNAME", "eth0")
    with pytest.warns(UserWarning, match="ROCECOLL_SOKET_IFNAME; did you mean ROCECOLL_SOCKET_IF"):
        resolve()


def test_no_warning_without_reason() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve()


def taken(monkeypatch: pytest.MonkeyPatch, **variables: str) -> dict[str, Given]:
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    return given()


@pytest.mark.parametrize(
    ("alias", "text", "name", "value"),
    [
        ("NCCL_SOCKET_IFNAME", "lo", "socket_ifname", "lo"),
        ("NCCL_SOCKET_IFNAME", "^docker,veth", "socket_ifname", "^docker,veth"),
        ("GLOO_SOCKET_IFNAME", "lo", "socket_ifname", "=lo"),
        ("NCCL_SOCKET_FAMILY", "AF_INET", "socket_family", "ipv4"),
        ("NCCL_SOCKET_FAMILY", "af_inet6", "socket_family", "ipv6"),
        ("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1", "ib_hca", "=mlx5_0:1,mlx5_1:1"),
        ("NCCL_IB_GID_INDEX", "3", "ib_gid_index", 3),
        ("NCCL_IB_TC", "0x6a", "ib_tc", 106),
        ("NCCL_IB_SL", " 5 ", "ib_sl", 5),
        ("NCCL_IB_TIMEOUT", "22", "ib_timeout", 22),
        ("NCCL_IB_RETRY_CNT", "7", "ib_retry_cnt", 7),
        ("NCCL_IB_PKEY", "1", "ib_pkey", 1),
        ("NCCL_IB_ECE_ENABLE", "0", "ib_ece", False),
        ("NCCL_IB_ADAPTIVE_ROUTING", "1", "ib_adaptive_routing", True),
        ("NCCL_DEBUG", "VERSION", "debug", "warn"),
        ("NCCL_DEBUG", "WARN", "debug", "warn"),
        ("NCCL_DEBUG", "info", "debug", "info"),
        ("NCCL_DEBUG", "TRACE", "debug", "info"),
    ],
)
def test_variables_of_other_libraries_count_where_ours_is_unset(
    alias: str, text: str, name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert taken(monkeypatch, **{alias: text}) == {name: Given(value, alias)}
    assert resolve()[name] == value
    assert alias_notes() == [AliasNote(f"{variable(name)} is taken from {alias}={text}", True)]
    assert alias_notes(chosen=[name]) == []
    ours = str(GOOD[name][0])
    assert taken(monkeypatch, **{variable(name): ours})[name].origin == variable(name)
    assert alias_notes() == []


@pytest.mark.parametrize("alias", [a.variable for o in table().values() for a in o.aliases])
@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_variable_of_another_library_is_unset(
    alias: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert taken(monkeypatch, **{alias: text}) == {}
    assert alias_notes() == []


@pytest.mark.parametrize("name", ["ib_gid_index", "ib_tc", "ib_sl"])
def test_nccl_says_minus_one_for_its_own_choice(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert taken(monkeypatch, **{f"NCCL_{name.upper()}": "-1"}) == {}
    assert alias_notes() == []


@pytest.mark.parametrize(
    ("alias", "text", "why"),
    [
        ("NCCL_SOCKET_IFNAME", "wlan7", "no interface of this host that is up has such a name"),
        ("GLOO_SOCKET_IFNAME", "l", "no interface of this host that is up has such a name"),
        ("NCCL_SOCKET_FAMILY", "AF_IB", "ROCECOLL_SOCKET_FAMILY takes auto, ipv4 or ipv6"),
        ("NCCL_IB_SL", "15", "ROCECOLL_IB_SL takes a whole number from 0 to 7"),
        ("NCCL_IB_TIMEOUT", "0", "ROCECOLL_IB_TIMEOUT takes a whole number from 1 to 31"),
        ("NCCL_DEBUG", "ABORT", "ROCECOLL_DEBUG takes auto, or off, warn or info"),
        ("NCCL_IB_TC", "high", "ROCECOLL_IB_TC takes a whole number from 0 to 255"),
        ("NCCL_IB_TC", "9" * 30, "ROCECOLL_IB_TC takes a whole number from 0 to 255"),
    ],
)
def test_a_value_that_is_none_of_ours_is_told_and_passed_over(
    alias: str, text: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert taken(monkeypatch, **{alias: text}) == {}
    assert resolve() == {
        name: option.default if name != "shm" else True for name, option in table().items()
    }
    assert alias_notes() == [AliasNote(f"{alias}={text} is not used: {why}", False)]


def test_the_next_variable_counts_where_the_first_is_of_no_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {"NCCL_SOCKET_IFNAME": "wlan7", "GLOO_SOCKET_IFNAME": "lo"}
    assert taken(monkeypatch, **names) == {"socket_ifname": Given("=lo", "GLOO_SOCKET_IFNAME")}
    assert [note.used for note in alias_notes()] == [False, True]
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "lo")
    assert given()["socket_ifname"].origin == "NCCL_SOCKET_IFNAME"


def test_aliases_are_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "lo")
    monkeypatch.setenv("NCCL_IB_SL", "9")
    announcements._say_once.cache_clear()
    with caplog.at_level(logging.INFO, "rocecoll"):
        tell_aliases([])
        tell_aliases([])
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", "rocecoll: ROCECOLL_SOCKET_IFNAME is taken from NCCL_SOCKET_IFNAME=lo"),
        (
            "WARNING",
            "rocecoll: NCCL_IB_SL=9 is not used: ROCECOLL_IB_SL takes a whole number from 0 to 7",
        ),
    ]


def test_local_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment.local_ranks() == 0
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "3")
    assert environment.local_ranks() == 3
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert environment.local_ranks() == 2


def test_what_launchers_say_is_read_and_reported_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PMI_JOBID", "OMPI_COMM_WORLD_RANK", "SLURM_STEP_ID", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "7")
        assert (
            environment.launcher_variables()[name]
            == environment.reported_variables(options.PREFIX)[name]
            == "7"
        )
    monkeypatch.setenv("PMI_SECURITY_TOKEN", "secret")
    assert (
        "PMI_SECURITY_TOKEN"
        not in environment.launcher_variables() | environment.reported_variables(options.PREFIX)
    )


def test_core_takes_every_setting() -> None:
    fault = "loss=0.1,duplicate=0.1,reorder=0.1,corrupt=0.1,delay_us=1,seed=3"
    settings = runtime_settings(
        resolve(Options(fault=fault, ib_gid_index=1).values), "127.0.0.1", 1
    )
    assert settings["fault"] == fault
    _core.Runtime(settings).shutdown()


def test_an_option_is_named_in_the_table_and_by_one_reader_at_most() -> None:
    """As CONTRIBUTING.md says about adding one."""
    files = modules_of_a_job()
    for name in table():
        use = re.compile(rf"""[\[(]["']{name}["'][\])]""")
        readers = [path.name for path in files if use.search(path.read_text())]
        assert len(readers) <= 1, (name, readers)


def test_group_that_is_not_replaced_needs_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The C++ library, which the table is in, is loaded when the first group of ours is made."""
    monkeypatch.setattr(options, "table", lambda: pytest.fail("looked at"))
    assert replaced_backends() == set()


def test_gloo_takes_an_interface_for_as_long_as_its_groups_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And the one that the user has named before any other."""
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    with environment.gloo_interface("eth7"):
        assert os.environ["GLOO_SOCKET_IFNAME"] == "eth7"
    assert "GLOO_SOCKET_IFNAME" not in os.environ
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    with environment.gloo_interface("eth7"):
        assert os.environ["GLOO_SOCKET_IFNAME"] == "lo"
    assert os.environ["GLOO_SOCKET_IFNAME"] == "lo"
