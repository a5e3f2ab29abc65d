# SPDX-License-Identifier: Apache-2.0
"""What a process writes to logging.getLogger("rocecoll"), and what of it shows."""
