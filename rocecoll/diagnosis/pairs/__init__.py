# SPDX-License-Identifier: Apache-2.0
"""Every two of several hosts: what passes between them over UDP (udp.py) and RoCE (roce.py), and verdicts."""
