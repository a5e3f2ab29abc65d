# SPDX-License-Identifier: Apache-2.0
"""Counters of NICs that show how well the network carries RoCE, and what each is a sign of.

The names are those of the drivers: mlx5, bnxt_re, ionic, irdma, mana and rxe. docs/roce.md lists them
by driver, and says what to do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from rocecoll.host.netdev_statistics import read_statistics

INFINIBAND = Path("/sys/class/infiniband")


class Sign(str, Enum):
    LOST = "lost or overtaken, sent again"
    NOT_READY = "no buffer at a receiver"
    GAVE_UP = "a peer did not answer"
    REFUSED = "memory refused"
    MARKED = "congestion marked (ECN)"
    PAUSED = "links paused (PFC)"


_NAMES = {
    Sign.LOST: (
        # mlx5
        "out_of_sequence packet_seq_err implied_nak_seq_err local_ack_timeout_err duplicate_request"
        " roce_adp_retrans roce_adp_retrans_to roce_slow_restart"
        # bnxt_re
        " oos_drop_count seq_err_naks_rcvd to_retransmits missing_resp dup_req rx_roce_discards"
        # ionic, whose firmware spells it so
        " resp_rx_outouf_seq req_rx_pkt_seq_err req_rx_impl_nak_seq_err tx_rdma_ack_timeout"
        " tx_rdma_retx_pkts resp_rx_dup_request"
        # irdma, the last one since it knows the E2000
        " ip4InDiscards ip6InDiscards tcpRetransSegs RetransSegs"
        # mana
        " responder_oos requester_oos_nak requester_implicit_nak requester_timeout"
        " responder_dup_request"
        # rxe
        " out_of_seq_request rcvd_seq_err completer_retry_err"
        # of any driver, in counters/
        " port_rcv_errors port_xmit_discards"
    ),
    Sign.NOT_READY: (
        "rnr_nak_retry_err out_of_buffer"
        " rnr_naks_rcvd rx_out_of_buffer"
        " req_rx_rnr_retry_err resp_rx_outof_buf"
        " requester_rnr_nak responder_rnr_nak"
        " rcvd_rnr_err send_rnr_err"
    ),
    Sign.GAVE_UP: (
        "req_transport_retries_exceeded req_rnr_retries_exceeded"
        " max_retry_exceeded"
        " req_tx_retry_excd_err"
        " requester_retries_exceeded requester_rnr_nak_retries_exceeded"
        " retry_exceeded_err retry_rnr_exceeded_err"
    ),
    Sign.REFUSED: (
        "req_remote_access_errors resp_remote_access_errors"
        " remote_access_err res_rx_invalid_rkey res_rx_range_err"
        " req_rx_rmt_acc_err"
        " nak_access_error responder_rem_access_error"
    ),
    Sign.MARKED: (
        "np_ecn_marked_roce_packets np_cnp_sent rp_cnp_handled rp_cnp_ignored"
        " rx_ecn_marked_pkts tx_cnp_pkts rx_cnp_pkts"
        " rx_rdma_ecn_pkts tx_rdma_cnp_pkts rx_rdma_cnp_pkts"
        " RxECNMrkd cnpSent cnpHandled cnpIgnored"
        " received_cnps"
    ),
}
_SIGNS = {name: sign for sign, names in _NAMES.items() for name in names.split()}
# Statistics of the interface below, which alone know priorities.
_OF_INTERFACES = {
    Sign.LOST: re.compile(r"rx_discards_phy|rx_prio\d_discards|rx_prio\d_(buf|cong)_discard"),
    Sign.PAUSED: re.compile(
        r"[rt]x_(prio\d|global)_pause"  # mlx5
        r"|[rt]x_(pfc_ena_frames_pri\d|pause_frames)"  # bnxt_en
        r"|frames_[rt]x_pripause"  # ionic
        r"|[rt]x_priority_\d_xoff\.nic|link_xoff_[rt]x\.nic"  # ice
        r"|hc_tc\d_[rt]x_pause_phy"  # mana
    ),
}


def nic_counters(infiniband: Path = INFINIBAND) -> dict[str, dict[str, int]]:
    """What the RDMA ports of this host count that tells how well their networks carry RoCE.

    By port ("mlx5_0 port 1") and by the driver's name of the counter, since the driver was loaded and of
    all programs: take it twice and subtract.
    """
    return {
        f"{port.parents[1].name} port {port.name}": read_counters(port)
        for port in sorted(infiniband.glob("*/ports/*"))
    }


def read_counters(port: Path) -> dict[str, int]:
    """The counters that are a sign of something, zeros included. `port` is its directory in sysfs."""
    statistics = read_statistics(netdev) if (netdev := netdev_of(port)) else {}
    entries = [*(port / "counters").glob("*"), *(port / "hw_counters").glob("*")]
    found = {entry.name: _value(entry) for entry in entries if entry.name in _SIGNS}
    found.update((name, value) for name, value in statistics.items() if _of_interface(name))
    return {name: value for name, value in sorted(found.items()) if value is not None}


def sign_of(name: str) -> Sign:
    """What a counter of read_counters() is a sign of."""
    return _SIGNS.get(name) or _of_interface(name) or Sign.LOST


def signs(counters: Mapping[str, int]) -> dict[Sign, dict[str, int]]:
    """The counters that are not 0, grouped by what they are a sign of."""
    grouped: dict[Sign, dict[str, int]] = {}
    for sign in Sign:
        if counted := {n: value for n, value in counters.items() if value and sign_of(n) is sign}:
            grouped[sign] = counted
    return grouped


def spell(sign: Sign, counted: Mapping[str, int], before: Mapping[str, int] | None = None) -> str:
    """`lost or ...: out_of_sequence 12 (+5), ...`, where there were 7 `before`."""
    told = []
    for name, value in counted.items():
        grown = value - before.get(name, 0) if before is not None else 0
        told.append(f"{name} {value}" + (f" (+{grown})" if grown > 0 else ""))
    return f"{sign.value}: {', '.join(told)}"


def _of_interface(name: str) -> Sign | None:
    return next((sign for sign, p in _OF_INTERFACES.items() if p.fullmatch(name)), None)


def netdev_of(port: Path) -> str:
    """The network interface below the port; empty if the kernel does not say."""
    for entry in sorted((port / "gid_attrs" / "ndevs").glob("*"), key=lambda path: int(path.name)):
        try:
            if name := entry.read_text().strip():
                return name
        except OSError:  # of unused GIDs
            continue
    return ""


def _value(path: Path) -> int | None:
    """None if the driver does not answer, or answers with something other than a number."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
