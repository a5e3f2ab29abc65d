# SPDX-License-Identifier: Apache-2.0
"""RDMA devices as a kernel shows them in sysfs, in a directory."""

from __future__ import annotations

from pathlib import Path

V4_MAPPED = "0000:0000:0000:0000:0000:ffff:"
ADDRESS = V4_MAPPED + "c000:0201"  # 192.0.2.1
LINK_LOCAL = "fe80:0000:0000:0000:526b:4bff:fe4f:8f01"
UNUSED = "0000:0000:0000:0000:0000:0000:0000:0000"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def add_port(
    root: Path,
    device: str,
    gids: list[tuple[str, str]],
    state: str = "4: ACTIVE",
    netdev: str = "",
    port: int = 1,
) -> None:
    """`gids` are GIDs with their types, in the order of the table."""
    at = root / "infiniband" / device / "ports" / str(port)
    write(at / "state", state)
    write(at / "rate", "100 Gb/sec (4X EDR)")
    write(at / "link_layer", "Ethernet")
    for index, (gid, version) in enumerate(gids):
        write(at / "gids" / str(index), gid)
        if gid != UNUSED:  # reading those of an unused one is an error
            write(at / "gid_attrs" / "types" / str(index), version)
            write(at / "gid_attrs" / "ndevs" / str(index), netdev)


def count(root: Path, device: str, counters: dict[str, int], kind: str = "hw_counters") -> None:
    for name, value in counters.items():
        write(root / "infiniband" / device / "ports" / "1" / kind / name, str(value))


def two_devices(root: Path) -> Path:
    """mlx5_0 is up, with the GIDs of ens1f0np0, whose address is 192.0.2.1; mlx5_1 is down."""
    gids = [
        (LINK_LOCAL, "IB/RoCE v1"),
        (LINK_LOCAL, "RoCE v2"),
        (ADDRESS, "IB/RoCE v1"),
        (ADDRESS, "RoCE v2"),
        (UNUSED, ""),
    ]
    add_port(root, "mlx5_0", gids, netdev="ens1f0np0")
    add_port(root, "mlx5_1", [(UNUSED, "")], state="1: DOWN")
    write(root / "net" / "ens1f0np0" / "mtu", "9000")
    write(root / "infiniband" / "mlx5_0" / "device" / "numa_node", "1")
    write(root / "infiniband" / "mlx5_1" / "device" / "numa_node", "-1")
    return root
