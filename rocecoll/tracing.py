# SPDX-License-Identifier: Apache-2.0
"""Traces: what the process's groups did, as a table and for chrome://tracing or Perfetto.

The calls come from the recorder in csrc/torch/observing/recorder.h.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

import torch
import torch.distributed as dist

from rocecoll.notes import named

if TYPE_CHECKING:
    from rocecoll._c10d import Call, Frame

TORCH = os.path.dirname(torch.__file__)
# Frames between the user's call and the backend, which do not say who called.
PLUMBING = ("distributed/distributed_c10d.py", "distributed/c10d_logger.py")
# Fields of the record that an event's arguments take over unchanged.
ARGUMENTS = (
    *("bytes", "group", "description", "global_ranks", "group_rank", "sequence", "reduce_op"),
    *("input_splits", "output_splits", "batch", "tag", "algorithm", "asynchronous"),
    *("timeout_ms", "thread_name", "error"),
)
AUTOGRAD = ("autograd/graph.py", "autograd/__init__.py", "_tensor.py")


class Trace:
    """The calls between entry and exit of a `with` block, of all threads and groups.

    `calls` and `dropped` (calls lost because the ring is bounded) are there after the block.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, capacity: int, rank: int | None = None
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity={capacity}: accepted is a number of calls from 1")
        self._path = path
        self._capacity = capacity
        self.rank = rank
        self._first: int | None = None
        self.calls: list[Call] = []
        self.dropped = 0

    def __enter__(self) -> Trace:
        from rocecoll import _c10d

        if self._first is not None:
            raise RuntimeError("a rocecoll trace can be entered only once")
        self._first = _c10d.start_recording(self._capacity)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        from rocecoll import _c10d

        assert self._first is not None
        self.calls, self.dropped = _c10d.recorded_calls(self._first)
        _c10d.stop_recording()
        self.rank = process_rank(self.calls) if self.rank is None else self.rank
        if self._path is not None:
            content = self.chrome().encode()
            write(rank_path(self._path, self.rank), lambda file: file.write(content))
        if self.rank == 0:
            print(self.table(), file=sys.stderr)

    def table(self) -> str:
        """Who called what how often, the longest total duration first."""
        return _table(self.calls, self.dropped, self.rank or 0)

    def chrome(self) -> str:
        """The trace in Chrome's JSON format: a process per rank, a track per group."""
        rank = self.rank or 0
        events = _metadata(rank, "process_name", 0, f"rank {rank}") + _call_events(self.calls, rank)
        notes = {"rank": rank, "dropped_calls": self.dropped}
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "otherData": notes})


def process_rank(calls: list[Call]) -> int:
    """This process's global rank, even after the default group is gone."""
    if dist.is_initialized():
        return dist.get_rank()
    return calls[0]["global_ranks"][calls[0]["group_rank"]] if calls else 0


def rank_path(path: str | os.PathLike[str], rank: int) -> Path:
    """`path` with %r or {rank} replaced by the rank; without either, it goes before the suffix.

    In a directory the file is trace.json.
    """
    text = os.fspath(path)
    if text.endswith("/") or os.path.isdir(text):
        text = os.path.join(text, "trace.json")
    named = text.replace("%r", str(rank)).replace("{rank}", str(rank))
    if named != text:
        return Path(named)
    return Path(text).with_name(f"{Path(text).stem}.{rank}{Path(text).suffix}")


def write(path: Path, content: Callable[[BinaryIO], object]) -> None:
    """Writes a file; if that fails it warns, because the program's own result matters more."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            content(file)
    except OSError as error:
        warnings.warn(f"rocecoll could not write {path}: {error.strerror}", stacklevel=3)


def place(frame: Frame) -> str:
    """ "train.py:12 main"; files of torch as torch/..., others relative to the current directory."""
    name = frame["filename"]
    if name.startswith(TORCH + os.sep):
        name = "torch" + name[len(TORCH) :]
    elif name.startswith(os.getcwd() + os.sep):
        name = os.path.relpath(name)
    return f"{name}:{frame['line']} {frame['name']}"


def initiator(call: Call) -> str:
    """Who made the call: the user's line, after the part of torch that made the call for it."""
    frames = [frame for frame in call["frames"] if not _in_torch(frame, PLUMBING)]
    if not frames:
        name = call["thread_name"]
        return f"autograd engine ({name})" if name.startswith("pt_autograd") else f"thread {name}"
    user = next((frame for frame in frames if not _in_torch(frame)), None)
    if frames[0] is user:
        return place(user)
    inner = "autograd engine" if _in_torch(frames[0], AUTOGRAD) else place(frames[0])
    return f"{inner} < {place(user)}" if user else inner


def duration_ns(call: Call, now_ns: int) -> int:
    """From the call to its end, or until now."""
    return (call["ended_ns"] or now_ns) - call["enqueued_ns"]


def state(call: Call) -> str:
    if call["error"]:
        return "failed"
    if call["ended_ns"] is not None:
        return "completed"
    return "started" if call["started_ns"] is not None else "scheduled"


def _in_torch(frame: Frame, files: tuple[str, ...] = ("",)) -> bool:
    return any(
        frame["filename"].startswith(TORCH + os.sep + name)
        if not name
        else frame["filename"] == os.path.join(TORCH, name)
        for name in files
    )


def _metadata(rank: int, kind: str, track: int, name: str) -> list[dict[str, Any]]:
    return [{"ph": "M", "pid": rank, "tid": track, "name": kind, "args": {"name": name}}]


def _call_events(calls: list[Call], rank: int) -> list[dict[str, Any]]:
    """Each call is one complete event. Calls of a group that overlap in time get further tracks."""
    now_ns = time.time_ns()
    tracks: dict[str, list[tuple[int, int]]] = {}  # by group: (track, end of its last call)
    events: list[dict[str, Any]] = []
    count = 0
    for call in calls:
        begin = call["enqueued_ns"]
        end = begin + duration_ns(call, now_ns)
        group = tracks.setdefault(call["group"], [])
        lane = next((i for i, (_, busy) in enumerate(group) if busy <= begin), len(group))
        if lane == len(group):
            name = f"{call['description'] or 'group'} ({call['group']})"
            events += _metadata(
                rank, "thread_name", count, name if lane == 0 else f"{name} +{lane}"
            )
            group.append((count, end))
            count += 1
        track = group[lane][0]
        group[lane] = (track, end)
        events.append(
            {
                "ph": "X",
                "cat": "message" if call["point_to_point"] else "collective",
                "name": call["op"].removeprefix("rocecoll:"),
                "pid": rank,
                "tid": track,
                "ts": begin / 1e3,
                "dur": (end - begin) / 1e3,
                "args": _arguments(call),
            }
        )
    return events


def _arguments(call: Call) -> dict[str, Any]:
    def tensors(side: list[tuple[list[int], str, str]]) -> list[str]:
        return [f"{dtype} {sizes} {device}" for sizes, dtype, device in side]

    started = call["started_ns"]
    values: dict[str, Any] = {name: call[name] for name in ARGUMENTS}  # type: ignore[literal-required]
    values |= {
        "initiator": initiator(call),
        "state": state(call),
        "inputs": tensors(call["inputs"]),
        "outputs": tensors(call["outputs"]),
        "root": None if call["root"] is None else _global(call, call["root"]),
        "start_delay_us": None if started is None else (started - call["enqueued_ns"]) / 1e3,
        "stack": [place(frame) for frame in call["frames"]],
    }
    return {name: value for name, value in values.items() if value not in (None, "", [])}


def _global(call: Call, rank: int) -> int | str:
    return "any" if rank < 0 else call["global_ranks"][rank]


def _table(calls: list[Call], dropped: int, rank: int) -> str:
    now_ns = time.time_ns()
    kinds: dict[tuple[str, str, str], list[Call]] = {}
    for call in calls:
        group = call["description"] or call["group"]
        key = (initiator(call), call["op"].removeprefix("rocecoll:"), group)
        kinds.setdefault(key, []).append(call)
    rows = []
    for key, same in kinds.items():
        times = [duration_ns(call, now_ns) / 1e6 for call in same]
        failed = sum(1 for call in same if call["error"])
        pending = sum(1 for call in same if call["ended_ns"] is None)
        notes = [f"{failed} failed"] * bool(failed) + [f"{pending} pending"] * bool(pending)
        cells = (len(same), sum(call["bytes"] for call in same))
        shown = (*map(str, cells), f"{sum(times) / len(times):.3f}", f"{max(times):.3f}")
        rows.append((sum(times), (*key[1:], *shown, key[0], ", ".join(notes))))
    rows.sort(key=lambda row: -row[0])
    head = ("operation", "group", "calls", "bytes", "mean ms", "max ms", "started by", "")
    lines = [head, *(cells for _, cells in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    text = [named(f"rank {rank} made {len(calls)} calls")]
    if dropped:
        text[0] += f", and {dropped} before them that the trace had no room for"
    for line in lines if calls else []:
        padded = [
            cell.rjust(width) if 2 <= i <= 5 else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        text.append("  ".join(padded).rstrip())
    return "\n".join(text)
