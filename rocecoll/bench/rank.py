# SPDX-License-Identifier: Apache-2.0
"""One rank: joins the others, measures with them, and ends. As a program: rank.py JOB, in JSON."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist

import rocecoll
from rocecoll import environment, launchers
from rocecoll.bench import machine
from rocecoll.bench.local_ranks import LOST_OTHERS
from rocecoll.bench.peers import Peer, TorchPeer, missing
from rocecoll.bench.plan import OURS, Plan
from rocecoll.bench.report import Line, Writer
from rocecoll.bench.turns import LostError, Way, first_line, measure_case, say, told_by_all
from rocecoll.rendezvous import records

AGREEMENT_LIMIT_S = 300.0
REFUSED = 2


class RefusedError(Exception):
    """The ranks cannot begin; all of them know why."""


def own_rank() -> int:
    return launchers.find_place(environment.launcher_variables()).rank


def join(interface: str | None = None) -> None:
    """All ranks meet in a group of gloo, on this interface unless gloo is to choose one."""
    torch.set_num_threads(1)
    with environment.gloo_interface(interface):
        rocecoll.init("gloo", timeout=timedelta(seconds=AGREEMENT_LIMIT_S))


@dataclass(frozen=True)
class Introduction:
    host: str
    plan: str
    problem: str


def introduce(plan: Plan, problem: str) -> int:
    """The number of hosts, if no rank has a problem and all were told to do the same."""
    mine = Introduction(
        records.host_id(), json.dumps(plan.json()), problem or missing(plan.contenders)
    )
    everybody = [Introduction(**said) for said in told_by_all(asdict(mine))]
    for rank, one in enumerate(everybody):
        if one.problem:
            raise RefusedError(f"rank {rank}: {one.problem}")
    for rank, one in enumerate(everybody):
        if one.plan != everybody[0].plan:
            raise RefusedError(
                f"rank {rank} was started with other arguments than rank 0: start all ranks alike"
            )
    return len({one.host for one in everybody})


def ways() -> list[str]:
    """The paths over which rocecoll's ranks sent to each other at the end."""
    taken = {row["path"] for row in rocecoll.peer_stats() if row["in_use"]}
    return sorted(set().union(*told_by_all(sorted(taken))))


def measure(
    plan: Plan,
    peers: Sequence[Peer],
    tell: Callable[[Line], None],
    way: Way = Way(),  # noqa: B008
    pin: bool = False,
) -> None:
    try:
        for peer in peers:
            peer.open()
        # Not before, because a backend may ask how many cores its process has.
        if pin and dist.get_world_size() <= len(os.sched_getaffinity(0)):
            machine.stay_on_a_core(dist.get_rank())
        for number in range(len(plan.cases)):
            measure_case(number, plan, peers, tell, way)
        tell({"ways": ways()})
    except LostError as error:
        raise LostError(culprit(peers) or str(error)) from error
    for peer in peers:
        peer.close()


def culprit(peers: Sequence[Peer]) -> str:
    """rocecoll knows which rank was lost; gloo, over which the ranks agree, does not say."""
    for peer in peers:
        if isinstance(peer, TorchPeer) and peer.name == OURS and peer.group is not None:
            try:
                dist.barrier(group=peer.group)
            except RuntimeError as error:
                return first_line(error)
    return ""


def run(body: Callable[[], int]) -> NoReturn:
    """Ends the process with the status that the body returns."""
    try:
        status = body()
    except RefusedError as error:
        status = REFUSED
        if own_rank() == 0:
            say(str(error))
    except LostError as error:
        status = LOST_OTHERS
        say(f"rank {own_rank()} cannot go on: {error}")
    except (RuntimeError, OSError, ValueError) as error:
        status = 1
        say(f"rank {own_rank()}: {error}")
    except Exception:
        status = 1
        say(f"rank {own_rank()}: {traceback.format_exc()}")
    sys.stdout.flush()
    # Not destroy_process_group: it would wait for groups that have given up.
    os._exit(status)


def teller(report: Path) -> Callable[[Line], None]:
    """Only rank 0 writes."""
    return Writer(report).write if dist.get_rank() == 0 else lambda line: None


def main(job: dict[str, Any]) -> int:
    plan = Plan.read(job["plan"])
    join()
    peers = [TorchPeer(name) for name in plan.contenders]
    measure(plan, peers, teller(Path(job["report"])), pin=True)
    return 0


if __name__ == "__main__":
    run(lambda: main(json.loads(sys.argv[1])))
