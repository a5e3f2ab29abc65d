# SPDX-License-Identifier: Apache-2.0
"""Every part of scripts/gpu_check, in one list: what it shows, who runs it, and how long it may take.

They begin in this order, the longest first; those that stand alone follow, one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

DEVICES = ("cuda", "fake", "cpu")
NO_STREAMS = "the CPU has no streams"
ONLY_CUDA = "only CUDA has it"
NO_NETWORK = {"GLOO_SOCKET_IFNAME": "lo"}  # there may be none, and no name of this host
# Two ranks of one GPU, and between them sockets, as between hosts.
NCCL_OVER_SOCKETS = {
    "NCCL_MULTI_RANK_GPU_ENABLE": "1",
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_P2P_DISABLE": "1",
    "NCCL_SHM_DISABLE": "1",
    "NCCL_IB_DISABLE": "1",
}


@dataclass(frozen=True)
class Part:
    name: str
    shows: str
    program: str  # the file beside this one whose run(rank) each rank calls
    limit_s: float
    ranks: int = 2
    lacks: dict[str, str] = field(default_factory=dict)  # device -> why it cannot run there
    variables: dict[str, str] = field(default_factory=dict)
    small: bool = False  # also where nobody asks for small sizes
    alone: bool = False  # its figures depend on what else runs
    killed: int | None = None  # the rank whose end by SIGKILL belongs to the part


def without(devices: str, reason: str) -> dict[str, str]:
    return dict.fromkeys(devices.split(), reason)


PARTS = (
    Part(
        "collectives",
        "every collective and dtype, byte for byte as on the CPU",
        "collectives.py",
        200,
    ),
    Part(
        "device tests",
        "tests/python/devices",
        "device_tests.py",
        240,
        ranks=1,
        lacks=without("cpu", "they are of accelerators"),
    ),
    Part(
        "collectives over UDP",
        "the same in small, without shared memory",
        "collectives.py",
        90,
        variables={"ROCECOLL_TRANSPORT": "udp"},
        small=True,
    ),
    Part(
        "streams",
        "results used on other streams, calls after late work, many in flight, threads",
        "streams.py",
        90,
        lacks=without("cpu", NO_STREAMS),
    ),
    Part(
        "streams over UDP",
        "the same without shared memory",
        "streams.py",
        90,
        lacks=without("cpu", NO_STREAMS),
        variables={"ROCECOLL_TRANSPORT": "udp"},
    ),
    Part("DDP", "DistributedDataParallel trains as one process does", "ddp.py", 90),
    Part(
        "FSDP2",
        "fully_shard trains as one process does, also with selective checkpointing",
        "fsdp2.py",
        90,
        lacks=without("fake", "the fake device lacks operators that FSDP2 needs"),
    ),
    Part(
        "mixed",
        "cpu:gloo beside rocecoll on the device, subgroups, a bound device",
        "mixed.py",
        90,
        lacks=without("cpu", "it takes two kinds of device"),
    ),
    Part(
        "killed rank", "the others name it, and their device goes on", "killed.py", 90, 3, killed=2
    ),
    Part(
        "dispatch modes",
        "a mode of the waiting thread sees none of rocecoll's copies",
        "modes.py",
        60,
        lacks=without("cpu", "tensors of the CPU are not copied"),
    ),
    Part(
        "capture",
        "a call inside a capture of a CUDA graph is refused with words, and the group lives",
        "capture.py",
        60,
        lacks=without("fake cpu", ONLY_CUDA),
    ),
    Part(
        "beside a capture",
        "operations under way while another stream is captured disturb nothing",
        "beside_capture.py",
        60,
        lacks=without("fake cpu", ONLY_CUDA),
    ),
    Part(
        "contexts",
        "a process has a CUDA context on its own GPU alone",
        "contexts.py",
        60,
        lacks=without("fake cpu", ONLY_CUDA),
    ),
    Part(
        "stall",
        "a rank behind a long kernel, one of its threads in synchronize, is not called lost",
        "stall.py",
        90,
        lacks=without("cpu", "the CPU has no kernels to be behind"),
        variables={"ROCECOLL_PEER_TIMEOUT": "3"},
        alone=True,  # its kernel leaves others little of the GPU
    ),
    Part(
        "memory",
        "pinned and device memory of 1 GiB, and that nothing grows",
        "memory.py",
        75,
        alone=True,
    ),
    Part(
        "timings",
        "all_reduce beside gloo, and on tensors of the CPU",
        "timings.py",
        110,
        alone=True,
    ),
    Part(
        "NCCL",
        "all_reduce beside NCCL over sockets",
        "nccl.py",
        60,
        lacks=without("fake cpu", ONLY_CUDA),
        variables=NCCL_OVER_SOCKETS,
        alone=True,
    ),
)
