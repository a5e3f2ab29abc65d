# SPDX-License-Identifier: Apache-2.0
"""What can be found out about this machine and its settings, as plain values, without torch.

Nothing here writes to a terminal: rocecoll.cli does.
"""
