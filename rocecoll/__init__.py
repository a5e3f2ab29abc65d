# SPDX-License-Identifier: Apache-2.0
"""A torch.distributed backend with its own collectives over its own reliable UDP and RoCE v2.

Importing it registers the backend "rocecoll", at the end of torch's import where that comes later.
Without torch only rocecoll._core and the command line can be used.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import _rocecoll_autoload
from rocecoll.launchers import init
from rocecoll.logs import debug_output  # noqa: F401  decides what shows of our lines
from rocecoll.runtime import check_torch, load_torch, peer_stats, stats

if TYPE_CHECKING:
    from rocecoll._c10d import Options
    from rocecoll.host.port_counters import nic_counters
    from rocecoll.tracing import Trace

__version__ = "0.1.0"
__all__ = [
    "Options",
    "__version__",
    "dump_flight_recorder",
    "init",
    "nic_counters",
    "peer_stats",
    "stats",
    "trace",
]


def trace(path: str | os.PathLike[str] | None = None, *, capacity: int = 1 << 16) -> Trace:
    """`with rocecoll.trace("trace.json") as trace:` records every call to every group inside.

    At the end each rank writes a Chrome trace (the rank replaces %r or {rank}, else goes before the
    suffix) and rank 0 prints a table. At most `capacity` calls are kept, the newest.
    """
    load_torch()
    from rocecoll.tracing import Trace

    return Trace(path, capacity)


def dump_flight_recorder(prefix: str | os.PathLike[str]) -> Path:
    """Writes what has been recorded so far to `prefix` + rank, for torchfrtrace; returns the path.

    Recording is on inside trace(), and with ROCECOLL_TRACE or ROCECOLL_FLIGHT_RECORDER.
    """
    load_torch()
    from rocecoll.flight_recorder import dump

    return dump(prefix)


def __getattr__(name: str) -> Any:
    """What most programs need later, or never. Options is a class of torch's and loads our C++ library."""
    if name == "nic_counters":
        from rocecoll.host.port_counters import nic_counters

        return nic_counters
    if name != "Options":
        raise AttributeError(f"module 'rocecoll' has no attribute {name!r}")
    load_torch()
    from rocecoll._c10d import Options

    return Options


if (_torch := sys.modules.get("torch")) is None:
    _rocecoll_autoload.register_after_torch()
else:
    check_torch(str(_torch.__version__))
    _rocecoll_autoload.register()
