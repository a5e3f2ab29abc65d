# SPDX-License-Identifier: Apache-2.0
"""The user's cache directory, for things that take long to make: made once, by one process at a time."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "rocecoll" / "softroce"


def short_hash(*parts: str | bytes) -> str:
    """A digest of the parts and of where one ends and the next begins."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:12]


@contextmanager
def lock(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """A lock that is released when its process ends. `waiting` is called if another process holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def make_once(
    target: Path, make: Callable[[Path], None], waiting: Callable[[], None] = lambda: None
) -> Path:
    """`target`, a directory that is either complete or absent; `make` fills one beside it."""
    if target.is_dir():
        return target
    with lock(target.parent / f"{target.name}.lock", waiting):
        if target.is_dir():
            return target
        for stale in target.parent.glob(f"{target.name}.part.*"):
            shutil.rmtree(stale, ignore_errors=True)
        part = Path(tempfile.mkdtemp(prefix=f"{target.name}.part.", dir=target.parent))
        try:
            make(part)
            part.chmod(0o755)
            part.rename(target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return target
