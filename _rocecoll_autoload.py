# SPDX-License-Identifier: Apache-2.0
"""Registers the backend's name with torch, and nothing else.

Outside the package because torch calls register() at the end of every `import torch` (entry point
group torch.backends): it must cost nothing and must work even where the package itself cannot be
imported. The package is loaded when the first process group is made.
"""

from __future__ import annotations

import logging
from typing import Any


def _create(options: Any, pg_options: Any) -> Any:
    from rocecoll.backend import create_backend

    return create_backend(options, pg_options)


def register() -> None:
    """Makes "rocecoll" a name that init_process_group() takes. Idempotent, never raises."""
    try:
        from torch.distributed import Backend

        if "rocecoll" not in Backend.backend_list:
            Backend.register_backend("rocecoll", _create, extended_api=True, devices=["cpu"])
    except Exception as error:  # an exception here would break `import torch` for everybody
        logging.getLogger("rocecoll").warning("the backend was not registered: %s", error)
