# SPDX-License-Identifier: Apache-2.0
"""torchrun ... -m rocecoll.bench: the same as `rocecoll bench`."""

from __future__ import annotations

import sys

from rocecoll.cli.app import app

if __name__ == "__main__":
    app(["bench", *sys.argv[1:]], prog_name="rocecoll")
