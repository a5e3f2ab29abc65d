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
    from collections.abc import Collection, Iterable, Mapping
    from datetime import timedelta

    from torch import Tensor
    from torch.distributed import ProcessGroup

    from rocecoll._c10d import Options
    from rocecoll.host.port_counters import nic_counters
    from rocecoll.tracing import Trace

__version__ = "0.1.0"
__all__ = [
    "Options",
    "__version__",
    "check_equal",
    "dump_flight_recorder",
    "init",
    "nic_counters",
    "peer_stats",
    "reconfigure",
    "reconfigure_handle",
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


def reconfigure_handle(group: ProcessGroup | None = None) -> str:
    """What the other members of a group need of this process to reconfigure() with it.

    Of the default group, which may be of this process alone: `init_process_group("rocecoll",
    store=HashStore(), rank=0, world_size=1)`. Good until the process ends or has no group left.
    """
    load_torch()
    from rocecoll.elastic import handle_of

    return handle_of(group)


def reconfigure(
    group: ProcessGroup | None,
    uuid: int,
    handles: Collection[str],
    timeout: timedelta | None = None,
) -> ProcessGroup:
    """Gives the default group exactly the processes with these handles as its ranks; returns it.

    All of them call it, with the same handles and the same `uuid`, which none of them has used before. A
    list gives each handle its rank; of a set all ranks make the same order, hosts together. No Store is
    used. `group` is the default group, or None for it; it may have failed. From torch 2.14 on it keeps its
    object. Before, the group that is returned is a new one, and every other group of the process ends.

    Raises ValueError for handles that make no group, RuntimeError for a uuid that was used before,
    RendezvousError for members that do not fit together, and torch.distributed.DistBackendError where not
    all have come within `timeout`, by default that of the group. The old group is then as it was: try
    again, with a new uuid.
    """
    load_torch()
    from rocecoll.elastic import reconfigure

    return reconfigure(group, uuid, handles, timeout)


def check_equal(
    tensors: Iterable[Tensor] | Mapping[str, Tensor], group: ProcessGroup | None = None
) -> None:
    """Raises rocecoll.equality.UnequalError unless all ranks have the same bits in these tensors.

    Names, dtypes and shapes are compared, too; where a tensor lies is not. The error says which ranks
    differ in which tensor. One small collective, and a second one where something differs; reads each
    tensor once, as BLAKE2b with 128 bits does.
    """
    load_torch()
    from rocecoll.equality import check_equal

    check_equal(tensors, group)


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
