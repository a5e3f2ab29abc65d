# SPDX-License-Identifier: Apache-2.0
"""Fixtures: pools of ranks over a clean or a faulty network, and the check that nothing is left
running."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import fake_device
import harness
import namespaces
import psutil
import pytest
import torch
from harness import TIMEOUT_S, Pool, PoolSpec, fresh_pool
from launch import ROOT, forked_programs

sys.path.append(str(ROOT / "scripts"))  # for their tests
sys.path.append(str(ROOT / "tests"))
pytest_plugins = ["running"]

WORLD_SIZES = (1, 2, 3, 4, 5, 7, 8)
QUICK_WORLD_SIZES = (1, 2, 3)
LOSSY = "loss=0.05,reorder=0.02,duplicate=0.01,seed=7"
NOTHING_LEFT_LIMIT_S = 60


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend", default="rocecoll", help="the backend under test; 'gloo' tries the tests"
    )
    parser.addoption(
        "--network", default="all", choices=["all", "clean", "lossy"], help="which networks to test"
    )
    parser.addoption("--kill-trials", type=int, default=2, help="of each kind in test_kills.py")
    parser.addoption("--quick", action="store_true", help="only what is marked quick, and small")
    parser.addoption("--nightly", action="store_true", help="what is marked nightly, too")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "quick: runs with --quick too, at small sizes")
    config.addinivalue_line("markers", "nightly: runs with --nightly only")
    config.addinivalue_line("markers", "lossy: runs a second time with 5 % of the packets lost")


def pytest_collection_finish() -> None:
    harness.preload()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests that need a `network` run on the clean one, those marked lossy on both."""
    if "network" not in metafunc.fixturenames:
        return
    networks = ["clean"]
    if metafunc.definition.get_closest_marker("lossy") and (
        metafunc.config.getoption("backend") == "rocecoll"
    ):
        networks.append("lossy")
    chosen = metafunc.config.getoption("network")
    networks = [network for network in networks if chosen in ("all", network)]
    metafunc.parametrize("network", networks, indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = items
    if config.getoption("quick"):
        chosen = [item for item in chosen if is_quick(item)]
    if not config.getoption("nightly"):
        chosen = [item for item in chosen if not item.get_closest_marker("nightly")]
    dropped = set(items).difference(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item in dropped])
    items[:] = chosen


def is_quick(item: pytest.Item) -> bool:
    """Whether it is marked quick, has a small world size and runs on the clean network."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return (
        item.get_closest_marker("quick") is not None
        and parameters.get("world", 1) in QUICK_WORLD_SIZES
        and parameters.get("network", "clean") == "clean"
    )


@pytest.fixture(scope="session")
def network(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def nightly(request: pytest.FixtureRequest) -> bool:
    """Whether tests that choose their own size run in full size."""
    return request.config.getoption("nightly") or os.environ.get("TEST_NIGHTLY") == "1"


@pytest.fixture(scope="session", params=WORLD_SIZES, ids=lambda size: f"n{size}")
def world(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture(scope="session")
def backend(request: pytest.FixtureRequest) -> str:
    return request.config.getoption("backend")


@pytest.fixture(scope="session")
def pools() -> Iterator[harness.Pools]:
    pools = harness.Pools()
    yield pools
    pools.close()


@pytest.fixture
def faults(network: str) -> dict[str, str]:
    """The variables that make a rank's network the one under test."""
    return {"ROCECOLL_FAULT": LOSSY} if network == "lossy" else {}


@pytest.fixture
def make_spec(backend: str, faults: dict[str, str]) -> Callable[..., PoolSpec]:
    def make(size: int, timeout_s: float = TIMEOUT_S, **environment: str) -> PoolSpec:
        return PoolSpec(size, backend, timeout_s, (*faults.items(), *environment.items()))

    return make


@pytest.fixture
def shared_pool(pools: harness.Pools, make_spec: Callable[..., PoolSpec]) -> Callable[[int], Pool]:
    """shared_pool(n): the pool of n ranks that tests share; the test must leave it usable."""
    return lambda size: pools.get(make_spec(size))


@pytest.fixture
def pool(shared_pool: Callable[[int], Pool], world: int) -> Pool:
    """The shared pool, at each of WORLD_SIZES."""
    return shared_pool(world)


@pytest.fixture(scope="session", params=["fake", "cuda"])
def accelerator(request: pytest.FixtureRequest) -> str:
    """The type of device under test: a fake one everywhere, a real one where there is one."""
    name: str = request.param
    if name == "fake":
        fake_device.build()
    elif not torch.cuda.is_available():
        pytest.skip("torch finds no CUDA device")
    return name


@pytest.fixture
def device_pool(
    pools: harness.Pools, make_spec: Callable[..., PoolSpec], accelerator: str
) -> Callable[[int], Pool]:
    """device_pool(n): like shared_pool, of ranks that have the accelerator."""
    return lambda size: pools.get(make_spec(size, TEST_ACCELERATOR=accelerator))


@pytest.fixture
def own_pool(
    make_spec: Callable[..., PoolSpec],
) -> Callable[..., AbstractContextManager[Pool]]:
    """own_pool(n, timeout_s=..., VARIABLE=...): a pool that ends with the test."""
    return lambda size, **details: fresh_pool(make_spec(size, **details))


@pytest.fixture
def hosts() -> Iterator[tuple[namespaces.Host, ...]]:
    """Two hosts, up and joined; they go away with the test."""
    yield from namespaces.joined_hosts()


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind(pools: harness.Pools) -> Iterator[None]:
    """No process that a test started outlives the tests; multiprocessing's servers end with us."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    yield
    pools.close()
    forked_programs.end()
    own_pid = psutil.Process().pid
    deadline = time.monotonic() + NOTHING_LEFT_LIMIT_S
    while True:
        left = [
            child
            for child in psutil.Process().children(recursive=True)
            if child.pid not in before
            and child.status() != psutil.STATUS_ZOMBIE
            and not (child.ppid() == own_pid and "multiprocessing" in " ".join(child.cmdline()))
        ]
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    assert not left and not multiprocessing.active_children(), f"still running: {left}"
