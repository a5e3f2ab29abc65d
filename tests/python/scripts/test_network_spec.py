# SPDX-License-Identifier: Apache-2.0
"""The names of networks of ./scripts/bench --network: what they mean, and which are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks import delay_line, network_spec
from benchmarks.network_spec import NetworkError, Spec, parse

pytestmark = pytest.mark.quick


def test_names_of_networks() -> None:
    assert parse("veth") == Spec("veth")
    plain = parse("veth:mtu=9000,offload=off")
    assert (plain.mtu, plain.offload, plain.rate, plain.is_plain) == (9000, False, "", True)
    lossy = parse("veth:loss=0.1")
    assert (lossy.loss_percent, lossy.offload) == (0.1, False)  # packets are lost one by one
    assert parse("veth:rate=10mbit").burst_bytes >= 1514  # else nothing would fit
    assert parse("veth:rate=10mbit,mtu=9000").burst_bytes >= 9014


def test_token_buckets() -> None:
    shaped = parse("veth:rate=1gbit,limit=128kb")
    assert (shaped.bytes_per_s, shaped.limit_bytes) == (125_000_000, 131072)
    assert (shaped.burst_bytes, shaped.at_hosts, shaped.has_switch) == (15625, False, True)
    assert parse("veth:rate=1gbit,where=router") == Spec(
        "veth:rate=1gbit,where=router", rate="1gbit"
    )
    at_hosts = parse("veth:rate=1gbit,where=host,burst=32kb")
    assert [at_hosts.helpers, parse("veth:delay=1ms").helpers] == [0, 1]
    assert (at_hosts.burst_bytes, at_hosts.at_hosts, at_hosts.has_switch) == (32768, True, False)
    whole = parse("veth:rate=10gbit")  # its burst lets messages of 64 KiB pass
    assert (whole.drops_messages, whole.limit_bytes) == (True, 131072)
    single = parse("veth:rate=10gbit,offload=off,limit=64kb")
    assert (single.drops_messages, single.drop_bytes) == (False, 1514)
    assert parse("veth:rate=1gbit").drop_bytes == 15625
    # A cable of ours carries packets; what a host's own bucket takes has not been there yet.
    assert parse("veth:rate=1gbit,delay=1ms").drop_bytes == 1514
    assert parse("veth:rate=10gbit,delay=1ms,where=host").drops_messages
    marked = parse("veth:rate=1gbit,mark=on")
    assert (marked.marks, marked.limit_bytes) == (True, 65536)


def test_delays() -> None:
    long = parse("veth:delay=5ms")
    assert (long.delay_us, long.jitter_us, long.has_switch, long.is_plain) == (5000, 0, True, True)
    shaken = parse("veth:delay=500us,jitter=1s,reorder=2.5")
    assert (shaken.delay_us, shaken.jitter_us, shaken.reorder_percent) == (500, 1_000_000, 2.5)
    assert not shaken.is_plain
    assert parse("veth:rate=1gbit,where=host,delay=5ms").has_switch


def test_other_flows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    controls = tmp_path / "controls"
    controls.write_text("reno cubic\n")
    monkeypatch.setattr(network_spec, "CONTROLS", controls)
    assert (parse("veth").flows, parse("veth").flow_control) == (0, "")
    for name, flows in (("veth:beside=tcp:cubic", 1), ("veth:beside=12*tcp:cubic", 12)):
        assert (parse(name).flows, parse(name).flow_control) == (flows, "cubic")
    with pytest.raises(NetworkError, match="no congestion control 'vegas': reno, cubic"):
        parse("veth:beside=tcp:vegas")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "lan",
        "veth:",
        "veth:loss",
        "veth:loss=",
        "veth:loss=100",
        "veth:loss=1e1",
        "veth:loss=1,loss=2",
        "veth:rate=0gbit",
        "veth:offload=on",
        "veth:rate=1gbit,buffer=64kb",
        "veth:rate=1gbit,burst=64",
        "veth:rate=1gbit,where=here",
        "veth:delay=5",
        "veth:delay=0ms",
        "veth:delay=5ms,reorder=100",
        "veth:beside=cubic",
        "veth:beside=0*tcp:cubic",
        "veth:beside=100*tcp:cubic",
    ],
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(NetworkError, match=re.escape(repr(name)) + " is no network: veth, or"):
        parse(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("veth:mark=on", "mark needs rate: only a port with a rate has a bucket"),
        ("veth:limit=64kb", "limit needs rate"),
        ("veth:burst=64kb", "burst needs rate"),
        ("veth:where=host", "where needs rate"),
        ("veth:jitter=1ms", "jitter needs delay: nothing is delayed without it"),
        ("veth:reorder=1", "reorder needs delay"),
        ("veth:rate=1gbit,burst=1kb", "burst=1kb has no room for a packet, of 1514 bytes"),
        ("veth:rate=1gbit,limit=8kb,mtu=9000", "limit=8kb has no room for a packet, of 9014 bytes"),
        (
            "veth:rate=1gbit,burst=64kb,limit=127kb",
            "limit=127kb has no room for messages of 64 KiB",
        ),
        ("veth:delay=3s,jitter=2001ms", "delay and jitter are more than 5 s"),
        ("veth:beside=65*tcp:cubic", "65 flows are more than 64"),
    ],
)
def test_combinations_are_refused(name: str, why: str) -> None:
    with pytest.raises(NetworkError, match=re.escape(f"{name!r}: {why}")):
        parse(name)


def test_a_delay_needs_tap_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay_line.os, "geteuid", lambda: 0)
    monkeypatch.setattr(delay_line, "TUN", tmp_path / "tun")
    with pytest.raises(NetworkError, match=r"a delay needs \S+/tun \(TUN/TAP\), which is not"):
        delay_line.require()
    monkeypatch.setattr(delay_line.os, "geteuid", lambda: 1000)
    with pytest.raises(NetworkError, match="a delay needs root"):
        delay_line.require()
