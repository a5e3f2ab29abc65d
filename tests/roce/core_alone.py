# SPDX-License-Identifier: Apache-2.0
"""Imports rocecoll as where there is no torch: that takes seconds in a guest, and slows down forks."""

from __future__ import annotations

import sys

if "torch" not in sys.modules:
    sys.modules["torch"] = None  # type: ignore[assignment]
    import rocecoll

    del sys.modules["torch"]

from rocecoll import _core as core
from rocecoll import environment, options

__all__ = ["core", "environment", "options", "rocecoll"]
