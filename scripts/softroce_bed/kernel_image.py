# SPDX-License-Identifier: Apache-2.0
"""Unpacks a compressed x86 kernel, which boots faster than one that has to unpack itself.

Emulated, decompression takes about ten seconds. Fields and offsets of a bzImage are from the
kernel's Documentation/arch/x86/boot.rst ("The Linux/x86 Boot Protocol").
"""

from __future__ import annotations

import lzma
import struct

SECTOR_BYTES = 512
SETUP_SECTORS_AT = 0x1F1
MAGIC_AT, MAGIC = 0x202, b"HdrS"
VERSION_AT, PAYLOAD_SINCE = 0x206, 0x0208  # the protocol that has the payload fields
PAYLOAD_AT = 0x248  # offset from the protected-mode code, then length
XZ_MAGIC, ELF_MAGIC = b"\xfd7zXZ\0", b"\x7fELF"


def payload(image: bytes) -> bytes:
    """The compressed kernel in a bzImage, with the size that follows it; b"" if there is none."""
    if image[MAGIC_AT : MAGIC_AT + len(MAGIC)] != MAGIC:
        return b""
    (version,) = struct.unpack_from("<H", image, VERSION_AT)
    if version < PAYLOAD_SINCE:
        return b""
    setup_sectors = image[SETUP_SECTORS_AT] or 4  # 0 means 4
    offset, length = struct.unpack_from("<II", image, PAYLOAD_AT)
    start = (1 + setup_sectors) * SECTOR_BYTES + offset
    return image[start : start + length]


def bootable(image: bytes) -> bytes:
    """The ELF file in a bzImage compressed by xz, as Debian 12's are; other images as they are."""
    packed = payload(image)
    if not packed.startswith(XZ_MAGIC):
        return image
    unpacked = lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(packed)
    return unpacked if unpacked.startswith(ELF_MAGIC) else image
