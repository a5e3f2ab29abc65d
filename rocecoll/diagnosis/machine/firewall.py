# SPDX-License-Identifier: Apache-2.0
"""Rules of this host that may drop UDP packets: a hint, as only packets can prove it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable

from rocecoll import options
from rocecoll.diagnosis.finding import Finding, Level

_LIMIT_S = 20.0
_EXAMPLE_PORTS = (50000, 50100)
# Returns the output of a program, or None if it is missing or fails.
Run = Callable[[list[str]], str | None]


def run(command: list[str]) -> str | None:
    if shutil.which(command[0]) is None:
        return None
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    return done.stdout if done.returncode == 0 else None


def check_firewall(settings: options.Settings, run: Run = run) -> list[Finding]:
    nft, iptables = run(["nft", "list", "ruleset"]), run(["iptables-save"])
    if nft is None and iptables is None:
        text = "its rules cannot be read, which takes root and nft or iptables-save"
        return [Finding("firewall", Level.NOTE, text, "sudo nft list ruleset")]
    low, high = settings["port_range"]
    ports = (low, high) if low else _EXAMPLE_PORTS
    first = "" if low else f"export ROCECOLL_PORT_RANGE={ports[0]}-{ports[1]}; "
    findings = [
        Finding(
            "firewall", Level.WARNING, f"{what}: it may drop what other ranks send", first + how
        )
        for what, how in [
            *nft_obstacles(nft or "", ports),
            *iptables_obstacles(iptables or "", ports),
        ]
    ]
    return findings or [Finding("firewall", Level.OK, "no rule for what comes in drops UDP")]


def nft_obstacles(rules: str, ports: tuple[int, int]) -> list[tuple[str, str]]:
    """Rules in chains for incoming packets that may drop ours, and the rule that lets them in."""
    found = []
    table = chain = ""
    incoming = False
    for line in map(str.strip, rules.splitlines()):
        if match := re.match(r"table (\S+ \S+) {", line):
            table = match[1]
        elif match := re.match(r"chain (\S+) {", line):
            chain, incoming = match[1], False
        elif "hook input" in line:
            incoming = True
        if not incoming:
            continue
        what = ""
        if "hook input" in line and "policy drop" in line:
            what = f"chain {chain} of table {table} drops what no rule accepts"
        elif re.search(r"\budp\b.*\b(drop|reject)\b", line) or re.match(r"(drop|reject)\b", line):
            what = f'chain {chain} of table {table} has "{line}"'
        if what:
            rule = f"nft insert rule {table} {chain} udp dport {ports[0]}-{ports[1]} accept"
            found.append((what, f"sudo {rule}"))
    return found


def iptables_obstacles(rules: str, ports: tuple[int, int]) -> list[tuple[str, str]]:
    how = f"sudo iptables -I INPUT -p udp --dport {ports[0]}:{ports[1]} -j ACCEPT"
    found = []
    for line in rules.splitlines():
        if line.startswith(":INPUT DROP"):
            found.append(("iptables' INPUT drops what no rule accepts", how))
        elif re.match(r"-A INPUT ((?!-p ).)*(-p udp .*)?-j (DROP|REJECT)\b", line):
            found.append((f'iptables has "{line}"', how))
    return found
