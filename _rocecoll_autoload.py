# SPDX-License-Identifier: Apache-2.0
"""Registers the backend's name with torch, and stands before what torch does by name.

Outside the package because torch calls register() at the end of every `import torch` (entry point
group torch.backends): it must cost nothing and must work even where the package itself cannot be
imported. The package is loaded when the first process group is made.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

# One group serves the CPU and whatever accelerator there is, by torch's own names: an extension
# that renames "privateuseone" does not change what that stands for.
DEVICES = ("cpu", "cuda", "xpu", "privateuseone")

# Functions of torch.distributed that treat backends by name: rocecoll/torch_hooks.py has what they
# do for ours, under the same names.
HOOKED = (
    "_new_process_group_helper",
    "_create_shrunk_process_group",
    "monitored_barrier",
    "_set_pg_timeout",
)


def _create(options: Any, pg_options: Any) -> Any:
    from rocecoll.torch_hooks import create

    return create(options, pg_options)


def _hooked(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            from rocecoll import torch_hooks
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
