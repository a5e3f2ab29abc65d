# SPDX-License-Identifier: Apache-2.0
"""Registers the backend's name with torch, and stands before what torch does by name.

Outside the package because torch calls register() at the end of every `import torch` (entry point
group torch.backends): it must cost nothing and must work even where the package itself cannot be
imported. The package is loaded when the first process group is made.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import logging
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec

# One group serves the CPU and whatever accelerator there is, by torch's own names: an extension
# that renames "privateuseone" does not change what that stands for.
DEVICES = ("cpu", "cuda", "xpu", "privateuseone")

# Functions of torch.distributed that treat backends by name: rocecoll/torch_hooks.py has what they
# do for ours, under the same names.
HOOKED = (
    "init_process_group",
    "_new_process_group_helper",
    "_create_shrunk_process_group",
    "monitored_barrier",
    "_set_pg_timeout",
    "_store_based_barrier",
)


def _torch_hooks() -> Any:
    """ImportError where the package cannot be used with this torch."""
    from rocecoll.runtime import load_torch

    load_torch()
    from rocecoll import torch_hooks

    return torch_hooks


def _create(options: Any, pg_options: Any) -> Any:
    try:
        torch_hooks = _torch_hooks()
    except ImportError as error:
        _tell_members(options, error)
        raise
    return torch_hooks.create(options, pg_options)


def _tell_members(group: Any, error: ImportError) -> None:
    """The other ranks would wait for this one until their timeout.

    Telling them takes a few modules in Python; it may be the package around them that refuses.
    """
    refused = "rocecoll" not in sys.modules
    with contextlib.suppress(ImportError):  # nor can these be loaded
        if refused and (spec := importlib.util.find_spec("rocecoll")) is not None:
            package = sys.modules["rocecoll"] = ModuleType("rocecoll")
            package.__path__ = list(spec.submodule_search_locations or ())
        from rocecoll.rendezvous.meeting import come, store_of_members, tell_failure

        if not group.global_ranks_in_group:  # rank 0 may wait for this
            come(group.store, group.group_rank)
        tell_failure(store_of_members(group), group.group_rank, group.group_size, error)
    if refused:
        sys.modules.pop("rocecoll", None)


def _hooked(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            torch_hooks = _torch_hooks()
        except ImportError as error:  # torch's own backends do not need us
            _warn_once(str(error))
            return plain(*args, **kwargs)
        return getattr(torch_hooks, name)(plain, *args, **kwargs)

    return function


@functools.cache
def _warn_once(error: str) -> None:
    logging.getLogger("rocecoll").warning("rocecoll is installed but cannot be used: %s", error)


def register() -> None:
    """Makes "rocecoll" a name that init_process_group() takes. Idempotent, never raises."""
    try:
        from torch import distributed
        from torch.distributed import Backend, distributed_c10d

        if "rocecoll" in Backend.backend_list:
            return
        Backend.register_backend("rocecoll", _create, extended_api=True, devices=list(DEVICES))
        for name in HOOKED:
            plain = getattr(distributed_c10d, name, None)
            if plain is None:  # another torch has another helper: groups work, under "custom"
                continue
            function = _hooked(name, plain)
            for module in (distributed_c10d, distributed):
                if getattr(module, name, None) is plain:
                    setattr(module, name, function)
    except Exception as error:  # an exception here would break `import torch` for everybody
        logging.getLogger("rocecoll").warning("the backend was not registered: %s", error)


class _TorchFinder:
    """Finds torch as the others do, with a loader that registers at its end."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch":
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    self._extend(spec.loader)
                return spec
        return None

    def _extend(self, loader: Loader) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            register()

        # Of this one loader: whoever looks at torch's loader later finds the kind that it expects.
        loader.exec_module = exec_module  # type: ignore[method-assign]


def register_after_torch() -> None:
    """Registers at the end of `import torch`, also where torch itself calls nobody.

    That is with TORCH_DEVICE_BACKEND_AUTOLOAD=0, or where the package is only on the path.
    """
    sys.meta_path.insert(0, _TorchFinder())
