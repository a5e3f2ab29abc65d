# SPDX-License-Identifier: Apache-2.0
"""The process's one running engine, and that it matches the torch it runs in."""

from __future__ import annotations

import atexit
import os
import warnings
from typing import TYPE_CHECKING

from rocecoll import log_forwarding

if TYPE_CHECKING:
    from rocecoll._c10d import Runtime
    from rocecoll.options import Settings

_runtime: Runtime | None = None
_settings: Settings = {}


def check_torch(version: str) -> None:
    """Raises ImportError unless this torch has the C++ interface that we were built for."""
    try:
        from rocecoll._build_info import TORCH_VERSION
    except ModuleNotFoundError:
        raise ImportError(
            "rocecoll is not built: run `pip install --no-build-isolation .` in its source tree"
        ) from None
    if version.split(".")[:2] != TORCH_VERSION.split(".")[:2]:
        raise ImportError(
            f"rocecoll was built for torch {TORCH_VERSION} but this is torch {version}: rebuild it "
            "with `pip install --no-build-isolation --force-reinstall rocecoll`"
        )


def shared_runtime(settings: Settings) -> Runtime:
    """Starts the runtime; later calls get the same one.

    Other settings take effect once no process group uses the old runtime.
    """
    global _runtime, _settings
    if _runtime is not None and _settings != settings:
        if _runtime.has_groups():
            changed = sorted(
                name for name, value in settings.items() if _settings.get(name) != value
            )
            warnings.warn(
                f"rocecoll keeps its settings while process groups exist: {', '.join(changed)} "
                "changed and was ignored",
                stacklevel=2,
            )
        else:
            _runtime.shutdown()
            _runtime = None
    if _runtime is None:
        from rocecoll._c10d import Runtime

        log_forwarding.start()
        _runtime = Runtime(settings)
        _settings = settings
    return _runtime


def stats() -> dict[str, int]:
    """Bytes and packets that this process has sent and received so far; zeros before it began."""
    if _runtime is not None:
        return _runtime.stats()
    from rocecoll._core import STAT_NAMES

    return dict.fromkeys(STAT_NAMES, 0)


def failed_groups() -> int:
    """How many of the process groups that exist have failed."""
    return _runtime.failed_groups() if _runtime is not None else 0


def _shutdown() -> None:
    if _runtime is not None:
        _runtime.shutdown()
    log_forwarding.stop()


def _forget() -> None:
    """A forked child starts a runtime of its own: the parent's progress thread is not in it."""
    global _runtime
    _runtime = None
    log_forwarding.forget()


# The last frames of a program that just ends must still reach its peers, and no callback may run
# once the interpreter goes away.
atexit.register(_shutdown)
os.register_at_fork(after_in_child=_forget)
