# SPDX-License-Identifier: Apache-2.0
"""What scripts/bench has besides rocecoll.bench, which every user has.

launcher.py starts the ranks, on this host or on the hosts of networks.py; rank.py is one of them. Its peers,
besides backends of torch, are rocecoll without torch (core_peer.py), OpenMPI (mpi_peer.py), plain UDP sockets
(udp_peer.py with udp_limit.cc), each of rocecoll's algorithms (sweep.py) and gloo under several congestion
controls (tcp_peer.py). tables.py and page.py write the results, network_page.py those of
scripts/network_matrix; machine.py and cache_line.py describe the machine. native.py builds the C++ programs,
and commands.py runs commands.

network_spec.py has the names of networks. networks.py makes a network from the devices of links.py; in it
delay_line.py (with delay_line.cc) delays packets, marker.py marks them, and bulk_flow.py sends competing TCP.

Over RoCE, beside others in the same guest: yardsticks.py runs outside and prints the table of cases.py;
rounds.py runs in the guest and takes the blocks in turn; rocecoll_rank.py and openmpi_rank.py are the
processes that it times.
"""
