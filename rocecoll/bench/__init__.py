# SPDX-License-Identifier: Apache-2.0
"""What `rocecoll bench` measures, and how; rocecoll/cli/bench.py is the command.

operations.py, sizes.py and plan.py say what to measure. rank.py is one rank: in it every peer (peers.py), which
is a library that is compared, takes its turns (turns.py) on the same tensors (buffers.py). Ranks are those of a
launcher, or started on this host by local_ranks.py. Their reports (report.py) become rows (results.py), tables
(tables.py) and pictures (plot.py); machine.py describes the machine.
"""
