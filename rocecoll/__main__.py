# SPDX-License-Identifier: Apache-2.0
"""python -m rocecoll"""

from __future__ import annotations

from rocecoll.cli.app import main

if __name__ == "__main__":
    main()
