# SPDX-License-Identifier: Apache-2.0
"""The Store that init_process_group makes itself: rank 0, which serves it, waits for all ranks.

torch's own wait cannot be interrupted by a signal and does not say who is missing. Ours takes its
place where torch makes the Store for a rocecoll group.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from torch._C._distributed_c10d import PrefixStore

from rocecoll import environment, status
from rocecoll.rendezvous.forming import forming
from rocecoll.rendezvous.meeting import come, wait_until_come

# torch.distributed has a function of the same name.
torch_rendezvous = importlib.import_module("torch.distributed.rendezvous")

GROUP = "default_pg"  # what torch calls the world, which has no name yet


@contextmanager
def waited_for_by_us() -> Iterator[None]:
    """While torch makes the Store."""
    plain = getattr(torch_rendezvous, "_create_c10d_store", None)
    if plain is None:  # another torch has another function: it waits itself
        yield
        return
    with _replaced(torch_rendezvous, "_create_c10d_store", functools.partial(_create, plain)):
        yield


@contextmanager
def _replaced(module: ModuleType, name: str, value: Any) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def _create(plain: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    call = inspect.signature(plain).bind(*args, **kwargs).arguments
    if torch_rendezvous._torchelastic_use_agent_store():  # the launcher serves it
        return _of_this_start(plain(*args, **kwargs))
    if call["rank"] > 0:  # it waits for nobody; torch's own wait on rank 0 would count it
        store = plain(*args, **kwargs)
        come(store, call["rank"])
        return store
    ours = functools.partial(torch_rendezvous.TCPStore, wait_for_workers=False)
    with _replaced(torch_rendezvous, "TCPStore", ours):
        store = plain(*args, **kwargs)
    come(store, 0)
    status.start()  # so that `rocecoll status` shows the wait
    with forming(GROUP, 0, range(call["world_size"])) as group:
        wait_until_come(store, group, call["timeout"])
    return store


def _of_this_start(store: Any) -> Any:
    """The part of the launcher's Store that has nothing of ranks that were there before a restart.

    Of a group that only some of them had come to, the others would find what those have left.
    """
    restarts = environment.restarts()
    return store if restarts is None else PrefixStore(f"rocecoll/start {restarts}", store)
