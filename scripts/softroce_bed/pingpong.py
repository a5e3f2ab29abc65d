# SPDX-License-Identifier: Apache-2.0
"""Runs inside a bed: libibverbs' own ping-pong over the wire, and proof that it was the wire.

    pingpong.py rc|ud [--ipv6] [--faulty]

A device that sends to itself short-cuts the network, faults and all, without any error. So it is
checked that the interfaces carried what was sent, and with --faulty that packets were repeated.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

MESSAGE_BYTES = {"rc": 16384, "ud": 2048}
ITERATIONS = 200
LIMIT_S = 60
# Packets that the other side asked for again, or that came twice.
REPETITIONS = ("duplicate_request", "out_of_seq_request", "rcvd_seq_err", "completer_retry_err")


def command(kind: str, end: int) -> list[str]:
    devices = os.environ["SOFTROCE_DEVICES"].split()
    indexes = "SOFTROCE_GID_INDEXES6" if "--ipv6" in sys.argv else "SOFTROCE_GID_INDEXES"
    gids = os.environ[indexes].split()
    here = end if len(devices) == 2 else 0
    # -e: completion events; two processes that poll would take turns on one processor.
    options = ["-e", "-d", devices[here], "-g", gids[here], "-n", str(ITERATIONS)]
    return [f"ibv_{kind}_pingpong", *options, "-s", str(MESSAGE_BYTES[kind])]


def client(kind: str) -> int:
    """Tries until the server listens."""
    alone = os.environ["SOFTROCE_GUESTS"] == "1"
    server = "127.0.0.1" if alone else os.environ["SOFTROCE_ADDRESSES"].split()[0]
    deadline = time.monotonic() + LIMIT_S
    while True:
        run = subprocess.run(
            [*command(kind, 1), server], stderr=subprocess.PIPE, text=True, timeout=LIMIT_S
        )
        refused = "Couldn't connect" in run.stderr and time.monotonic() < deadline
        if not refused:
            sys.stderr.write(run.stderr)
            return run.returncode
        time.sleep(0.05)


def sent_bytes(interface: str) -> int:
    return int(Path(f"/sys/class/net/{interface}/statistics/tx_bytes").read_text())


def repetitions(device: str) -> int:
    counters = Path(f"/sys/class/infiniband/{device}/ports/1/hw_counters")
    return sum(int((counters / name).read_text()) for name in REPETITIONS)


def main(kind: str, faulty: bool) -> int:
    guests, guest = os.environ["SOFTROCE_GUESTS"], os.environ["SOFTROCE_GUEST"]
    if guests == "1":
        with subprocess.Popen(command(kind, 0), stdout=subprocess.DEVNULL) as server:
            status = client(kind)
            if status:
                server.kill()
            status = status or server.wait(LIMIT_S)
    elif guest == "0":
        status = subprocess.run(command(kind, 0), timeout=LIMIT_S).returncode
    else:
        status = client(kind)
    for interface in os.environ["SOFTROCE_INTERFACES"].split():
        if sent_bytes(interface) < ITERATIONS * MESSAGE_BYTES[kind]:
            print(f"{interface} sent {sent_bytes(interface)} bytes: that was not all over the wire")
            status = status or 1
    if faulty and sum(map(repetitions, os.environ["SOFTROCE_DEVICES"].split())) == 0:
        print("no packet was repeated: the faults did not reach the devices")
        status = status or 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "--faulty" in sys.argv))
