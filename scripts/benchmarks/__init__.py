# SPDX-License-Identifier: Apache-2.0
"""What scripts/bench is made of.

operations.py and sizes.py say what there is to measure, results.py, tables.py, plot.py and page.py what
comes of it, machine.py where. launcher.py starts the ranks, on this host or on the hosts of networks.py;
rank.py is one of them. In it every peer (peers.py, core_peer.py, mpi_peer.py, udp_peer.py with udp_limit.cc,
sweep.py) has its turn on the same buffers (buffers.py).

Over RoCE, beside others in the same guest: yardsticks.py runs outside and prints the table of cases.py;
rounds.py runs in the guest and takes the blocks in turn; rocecoll_rank.py and openmpi_rank.py are the
processes that it times.
"""
