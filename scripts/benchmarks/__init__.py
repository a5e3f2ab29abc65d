# SPDX-License-Identifier: Apache-2.0
"""What scripts/bench measures besides gloo on one host.

Over networks, beside gloo: network_bench.py runs outside, networks.py makes the hosts and what joins
them, network_rank.py is the processes that are timed, network_results.py makes the table.

Over RoCE, beside others in the same guest: yardsticks.py runs outside and prints the table; rounds.py
runs in the guest and takes the blocks in turn; rocecoll_rank.py and openmpi_rank.py are the processes
that it times.
"""
