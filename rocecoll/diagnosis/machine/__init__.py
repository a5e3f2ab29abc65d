# SPDX-License-Identifier: Apache-2.0
"""This machine alone: its options, addresses, sockets, limits and devices; checkup.py has all checks."""
