# SPDX-License-Identifier: Apache-2.0
"""What the tests themselves count on when they start programs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from launch import environment

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_line_is_one_write_also_of_torchruns_workers(stream: str) -> None:
    """Another rank's line between a line and its end has made one of two (sitecustomize.py)."""
    reader, writer = os.pipe2(os.O_DIRECT)  # each read gives what one write brought, pipe(2)
    try:
        command = [sys.executable, "-u", "-c", f"import sys; print('lost', file=sys.{stream})"]
        subprocess.run(command, env=environment(), check=True, timeout=60, **{stream: writer})
        assert os.read(reader, 4096) == b"lost\n"
    finally:
        os.close(reader)
        os.close(writer)
