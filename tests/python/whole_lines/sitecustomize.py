# SPDX-License-Identifier: Apache-2.0
"""Has every program that a test starts write each line together with its end.

torchrun starts its workers with -u. `print` then writes a line and its end separately, and every
few hundred runs a line of another rank, whose output is the same pipe, comes between the two.
"""

import io
import sys

for stream in (sys.stdout, sys.stderr):
    if isinstance(stream, io.TextIOWrapper):  # not where the descriptor was closed
        stream.reconfigure(line_buffering=True, write_through=False)
