# SPDX-License-Identifier: Apache-2.0
"""One all_reduce; prints the error that it ends with, and what is logged before.

python first_contact.py INIT_METHOD
"""

from __future__ import annotations

import logging
import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

import rocecoll  # noqa: F401  registers the backend


def main() -> None:
    logging.basicConfig(level=logging.WARNING, stream=sys.stdout, format="logged: %(message)s")
    dist.init_process_group(
        "rocecoll",
        init_method=sys.argv[1],
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        timeout=timedelta(seconds=600),
    )
    try:
        dist.all_reduce(torch.zeros(10))
    except dist.DistError as error:
        print(f"raised: {error}", flush=True)
        os._exit(0)  # the other rank may hold the store
    sys.exit("no error although nothing gets through")


if __name__ == "__main__":
    main()
