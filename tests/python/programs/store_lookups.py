# SPDX-License-Identifier: Apache-2.0
"""store_lookups.py ADDRESS: serves names at 127.0.0.1:53, where none is known, and tells how many torch's Store asks
for while it is opened twice at ADDRESS, once as the one that serves it."""

from __future__ import annotations

import socket
import sys
import threading
from datetime import timedelta

from torch.distributed import TCPStore

TIMEOUT = timedelta(seconds=100)
NO_SUCH_NAME = bytes.fromhex("8183")  # an answer, recursion wanted and there, NXDOMAIN


def serve(port: socket.socket, asked: set[object]) -> None:
    while True:
        question, client = port.recvfrom(512)
        asked.add((client, question))  # one that is asked again counts once
        port.sendto(question[:2] + NO_SUCH_NAME + question[4:], client)


def main() -> None:
    [address] = sys.argv[1:]
    asked: set[object] = set()
    port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    port.bind(("127.0.0.1", 53))
    threading.Thread(target=serve, args=(port, asked), daemon=True).start()
    server = TCPStore(address, 0, 2, True, TIMEOUT, wait_for_workers=False)
    client = TCPStore(address, server.port, 2, False, TIMEOUT, wait_for_workers=False)
    client.set("come", "")
    server.wait(["come"])
    print("asked", len(asked))


if __name__ == "__main__":
    main()
