# SPDX-License-Identifier: Apache-2.0
"""The process's one running engine, and the check that it was built for the torch it runs in."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocecoll import options, status
from rocecoll.logs import log_forwarding
from rocecoll.rendezvous import forming

if TYPE_CHECKING:
    from rocecoll._c10d import Runtime
    from rocecoll._core import PeerStats
    from rocecoll.options import Settings


def check_torch(version: str) -> None:
    """Raises ImportError unless rocecoll was built for this release of torch."""
    try:
        from rocecoll._build_info import TORCH_MINORS, TORCH_VERSION
    except ImportError:  # not there, or written by an older setup.py
        raise ImportError(f"rocecoll is not built: {how_to_build()}") from None
    built, here = (".".join(text.split(".")[:2]) for text in (TORCH_VERSION, version))
    if here == built:
        return
    cure = f"install that release again, `pip install 'torch=={built}.*'`, or "
    if here in TORCH_MINORS:
        cure += "build rocecoll for this one, in its source tree: `pip install --no-build-isolation --no-deps --force-reinstall .`"
    else:
        cure += f"another that this version of rocecoll can be built for: {TORCH_MINORS[0]} to {TORCH_MINORS[-1]}"
    raise ImportError(
        f"rocecoll was built for torch {TORCH_VERSION} but this is torch {version}: {cure}"
    )


def how_to_build() -> str:
    """What to do if the package lacks its built parts. A source tree hides an installed package."""
    tree = Path(__file__).resolve().parent.parent
    build = "run `pip install --no-build-isolation .` in its source tree"
    if not (tree / "setup.py").exists():
        return build
    return (
        f"Python has found its source tree, {tree}, first: if it is installed, keep and start the "
        f"program in another directory; if not, {build}"
    )


def load_torch() -> None:
    """To be called before rocecoll._c10d is imported, which needs the right libtorch in the process."""
    import torch

    check_torch(str(torch.__version__))


def shared_runtime(settings: Settings) -> Runtime:
    """Starts the runtime; later calls get the same one.

    Other settings take effect only once no process group uses the old runtime.
    """
    from rocecoll import _c10d

    log_forwarding.start()
    _end_with_worker()
    runtime = _c10d.start_runtime(settings)
    status.start()
    return runtime


def warn_of_ignored(chosen: Mapping[str, Any], wanted: Settings, runtime: Runtime) -> None:
    """Warns of settings that are wanted but that the running runtime has otherwise.

    These are options that a rocecoll.Options names, and variables that have changed since it began.
    """
    global _environment
    now = {name: said.value for name, said in options.given().items()}
    if runtime.process != _environment[0]:
        _environment = runtime.process, now
    before = _environment[1]
    kept = runtime.settings
    differing = [name for name in wanted if name in kept and wanted[name] != kept[name]]
    named = [name for name in chosen if name in differing]
    if named:
        asked = ", ".join(f"{name}={chosen[name]!r}" for name in named)
        _warn(f"rocecoll.Options({asked})", named, kept, "give it to that one")
    changed = [n for n in differing if n not in chosen and now.get(n) != before.get(n)]
    if changed:
        asked = ", ".join(options.assignment(name, now.get(name)) for name in changed)
        _warn(asked, changed, kept, "set it before that one")


def _warn(asked: str, names: Sequence[str], kept: Settings, cure: str) -> None:
    running = ", ".join(f"{name}={kept[name]!r}" for name in names)
    warnings.warn(
        f"{asked} is ignored: while the process has other groups it goes on with {running}, as its "
        f"first group was made; {cure}, or destroy all groups before",
        stacklevel=3,
    )


def stats() -> dict[str, int]:
    """Bytes and packets that this process has sent and received so far; zeros before it began."""
    from rocecoll import _core

    return _core.process_stats()


def peer_stats() -> list[PeerStats]:
    """A row for each path to each rank of each group that this process has a link to.

    It looks at every link under the engine's lock: for a monitor, not for every training step.
    """
    from rocecoll import _core

    return _core.process_peer_stats()


def _shutdown() -> None:
    if _c10d := sys.modules.get("rocecoll._c10d"):
        # Python still waits for these to end, as in a process of multiprocessing.
        waited_for = [
            thread
            for thread in threading.enumerate()
            if not thread.daemon and thread is not threading.main_thread()
        ]
        _c10d.shut_down(threads_may_stay=not waited_for)
    status.stop()
    log_forwarding.stop()


# The id of the runtime that was seen last, and what the environment gave when it began.
_environment: tuple[int, Settings] = (0, {})

# The process for which _end_with_worker() has arranged its end.
_worker: int | None = None


def _end_with_worker() -> None:
    """A forked process of multiprocessing ends without running atexit's functions."""
    global _worker
    if multiprocessing.parent_process() is None or _worker == os.getpid():
        return
    _worker = os.getpid()
    Finalize(None, _shutdown, exitpriority=0)


# The last frames of a program that just ends must still reach its peers, and no callback may run
# once the interpreter goes away.
atexit.register(_shutdown)
os.register_at_fork(after_in_child=log_forwarding.forget)
os.register_at_fork(after_in_child=status.forget)
os.register_at_fork(after_in_child=forming.forget)
