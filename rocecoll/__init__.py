# SPDX-License-Identifier: Apache-2.0
"""A torch.distributed backend with its own collectives over its own reliable UDP.

Importing it registers the backend "rocecoll". Without torch only rocecoll._core can be used.
"""

from __future__ import annotations

from rocecoll.options import Options
from rocecoll.runtime import stats

__version__ = "0.1.0"
__all__ = ["Options", "__version__", "stats"]


def _register() -> None:
    try:
        import torch  # before our own libraries: they need libtorch in the process
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return
    from _rocecoll_autoload import register
    from rocecoll.runtime import check_torch

    check_torch(str(torch.__version__))
    register()


_register()
