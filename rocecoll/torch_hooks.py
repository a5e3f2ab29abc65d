# SPDX-License-Identifier: Apache-2.0
"""What torch.distributed does by name for its own backends, done for ours.

Each function replaces torch's function of the same name, which it gets as `plain` and calls for
everything that is not about rocecoll. _rocecoll_autoload.py puts them in place.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from rocecoll import options
from rocecoll._c10d import Backend, Options, make_process_group
from rocecoll.backend import create_backend, known_members
from rocecoll.first_store import waited_for_by_us
from rocecoll.host import accelerators
from rocecoll.notes import named

NAME = "rocecoll"


@dataclass(frozen=True)
class _Wanted:
    """A group that rocecoll serves on all its devices, while torch makes it."""

    devices: tuple[str, ...]
    bound_device: str | None


_wanted: ContextVar[_Wanted | None] = ContextVar("rocecoll_wanted", default=None)


def create(group: Any, pg_options: Any) -> Any:
    """torch calls it for each device that rocecoll serves: a Backend, or the whole ProcessGroup."""
    backend = create_backend(group, pg_options)
    wanted = _wanted.get()
    if wanted is None:
        return backend
    return make_process_group(
        store=group.store.underlying_store,  # torch adds a prefix for the device
        backend=backend,
        devices=list(wanted.devices),
        bound_device=wanted.bound_device,
    )


def init_process_group(plain: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    call = inspect.signature(plain).bind(*args, **kwargs)
    asked = str(call.arguments.get("backend") or c10d.Backend.UNDEFINED).lower()
    if NAME not in replace_names(asked, options.replaced_backends()):
        return plain(*args, **kwargs)
    with waited_for_by_us():
        return plain(*args, **kwargs)


def _new_process_group_helper(plain: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Called for every group that init_process_group() and new_group() make."""
    call = inspect.signature(plain).bind(*args, **kwargs)
    asked = str(call.arguments.get("backend", "")).lower()
    backend = replace_names(asked, options.replaced_backends())
    if backend != asked:
        call.arguments["backend"] = backend
        if not isinstance(call.arguments.get("backend_options"), Options):
            call.arguments["backend_options"] = None  # those of the backend that is replaced
    if NAME in backend:
        with _announced(_plan(backend, call.arguments.get("device_id"))):
            group, store = plain(*call.args, **call.kwargs)
    else:
        group, store = plain(*call.args, **call.kwargs)
    if isinstance(group, dist.ProcessGroup):
        _set_default_backend(group, backend)
        _get_ready_to_stage(group)
        if backend != asked:
            _keep_name(group, store, asked)
    return group, store


def replace_names(asked: str, replaced: frozenset[str]) -> str:
    """`asked`, in any of the forms that torch takes, with our name for those in `replaced`."""
    if asked == c10d.Backend.UNDEFINED:  # torch chooses by the machine's accelerator
        device = torch._C._get_accelerator().type
        chosen = c10d.Backend.default_device_backend_map.get(device)
        return NAME if chosen in replaced else asked
    parts = []
    for part in asked.split(","):
        device, separator, name = part.rpartition(":")
        parts.append(device + separator + (NAME if name in replaced else name))
    return ",".join(parts)


def _plan(backend: str, device_id: torch.device | None) -> _Wanted | None:
    """None: torch makes the group and asks rocecoll for a Backend for each of its devices."""
    devices = c10d.BackendConfig(c10d.Backend(backend)).get_device_backend_map()
    if set(devices.values()) != {NAME} or c10d.get_debug_level() == c10d.DebugLevel.DETAIL:
        return None
    accelerator = [torch._C._get_accelerator().type] if backend == NAME else []
    bound = None if device_id is None else str(device_id)
    return _Wanted(tuple(dict.fromkeys([*devices, *accelerator])), bound)


@contextmanager
def _announced(wanted: _Wanted | None) -> Iterator[None]:
    token = _wanted.set(wanted)
    try:
        yield
    finally:
        _wanted.reset(token)


def _set_default_backend(group: dist.ProcessGroup, backend: str) -> None:
    """torch sets none for several devices without NCCL once any plugin is registered."""
    if group.name() != c10d.Backend.UNDEFINED:
        return
    types = dist.ProcessGroup.BackendType
    if NAME in backend:
        group._set_default_backend(types.CUSTOM)
    elif c10d.Backend.GLOO in backend:
        group._set_default_backend(types.GLOO)


def _get_ready_to_stage(group: dist.ProcessGroup) -> None:
    """Done here rather than at the first call, because it may stall the accelerator."""
    device = accelerators.in_use(torch)
    if device is None:
        return
    if torch.device(device).type not in {kind.type for kind in group._device_types}:
        return
    backend = unwrapped(group._get_backend(torch.device(device)))
    if isinstance(backend, Backend):
        backend.prepare_staging(device)


def _keep_name(group: dist.ProcessGroup, store: Any, asked: str) -> None:
    """get_backend() still returns the name that the program asked for, which it may check."""
    c10d._world.pg_map[group] = (c10d.Backend(asked), store)
    c10d._world.pg_backend_config[group] = str(c10d.BackendConfig(c10d.Backend(asked)))
    if group.rank() == 0:
        _say_once(asked)


@functools.cache
def _say_once(asked: str) -> None:
    what = "the default backend" if asked == c10d.Backend.UNDEFINED else repr(asked)
    print(named(f"carries the process groups of {what} (ROCECOLL_REPLACE)"), file=sys.stderr)


def _ours(group: Any) -> bool:
    """Whether rocecoll serves a device of `group`, which need not be a group at all."""
    if not isinstance(group, dist.ProcessGroup):
        return False
    return any(isinstance(one, Backend) for one in backends_of(group))


def backends_of(group: dist.ProcessGroup) -> list[Any]:
    """One for each of its devices, which may share one."""
    return [unwrapped(group._get_backend(device)) for device in group._device_types]


def unwrapped(backend: Any) -> Any:
    """TORCH_DISTRIBUTED_DEBUG=DETAIL puts a wrapper around each."""
    return getattr(backend, "wrapped_pg", backend)


def monitored_barrier(plain: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    call = inspect.signature(plain).bind(*args, **kwargs)
    group: Any = call.arguments.pop("group", None) or dist.group.WORLD
    if not _ours(group):
        return plain(*args, **kwargs)
    timeout = call.arguments.pop("timeout", None)
    if timeout is not None:
        seconds = isinstance(timeout, int | float)
        call.arguments["timeout"] = timedelta(seconds=timeout) if seconds else timeout
    group.monitored_barrier(**call.arguments)
    return None


def _store_based_barrier(plain: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    """With TORCH_DIST_INIT_BARRIER=1. Members that reconfigured a group share no Store, and have met."""
    call = inspect.signature(plain).bind(*args, **kwargs)
    if known_members(call.arguments["store"]) is None:
        plain(*args, **kwargs)


def _set_pg_timeout(plain: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    call = inspect.signature(plain).bind(*args, **kwargs)
    group: Any = call.arguments.get("group") or dist.group.WORLD
    if not _ours(group):
        return plain(*args, **kwargs)
    if hasattr(group, "set_timeout"):
        group.set_timeout(call.arguments["timeout"])
    else:  # before torch 2.9
        for backend in {group._get_backend(device) for device in group._device_types}:
            if isinstance(backend, Backend):
                backend._set_default_timeout(call.arguments["timeout"])
    return None


def _create_shrunk_process_group(
    plain: Callable[..., Any], backend: Any, ranks: list[int], metadata: dict[str, Any], *rest: Any
) -> Any:
    """shrink_group() assumes that every new group is gloo's or NCCL's, on one device."""
    group = plain(backend, ranks, metadata, *rest)
    if not isinstance(backend, Backend):
        return group
    devices = c10d.BackendConfig(metadata["backend_config"]).get_device_backend_map()
    bound = metadata.get("bound_device_id")
    ours = make_process_group(
        store=group.get_group_store(),
        backend=backend,
        devices=list(devices),
        bound_device=None if bound is None else str(bound),
    )
    ours._set_group_name(group.group_name)
    ours._set_group_desc(group.group_desc)
    c10d._world.pg_backend_config.pop(group, None)
    return ours
