# SPDX-License-Identifier: Apache-2.0
"""Writes an initramfs: the format is in the kernel's Documentation/driver-api/early-userspace."""

from __future__ import annotations

import stat

ALIGNMENT_BYTES = 4
CONSOLE = (5, 1)  # major and minor number of /dev/console


def padding(length_bytes: int) -> bytes:
    return bytes(-length_bytes % ALIGNMENT_BYTES)


class Initramfs:
    """A cpio archive in the "newc" format, to which entries are added; everything is root's."""

    def __init__(self) -> None:
        self.archive = bytearray()
        self.inode = 0

    def directory(self, path: str) -> None:
        self.add(path, stat.S_IFDIR | 0o755)

    def file(self, path: str, content: bytes, executable: bool = False) -> None:
        self.add(path, stat.S_IFREG | (0o755 if executable else 0o644), content)

    def symlink(self, path: str, target: str) -> None:
        self.add(path, stat.S_IFLNK | 0o777, target.encode())

    def console(self) -> None:
        """The kernel opens it for the first process."""
        self.add("dev/console", stat.S_IFCHR | 0o600, device=CONSOLE)

    def add(
        self, path: str, mode: int, content: bytes = b"", device: tuple[int, int] = (0, 0)
    ) -> None:
        self.inode += 1
        name = path.encode() + b"\0"
        links, user, group, time, checksum = 1, 0, 0, 0, 0
        major, minor = 0, 0  # of the device that the file lies on
        fields = [self.inode, mode, user, group, links, time, len(content)]
        fields += [major, minor, *device, len(name), checksum]
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        self.archive += header + name + padding(len(header) + len(name))
        self.archive += content + padding(len(content))

    def whole(self) -> bytes:
        self.add("TRAILER!!!", 0)
        return bytes(self.archive)
