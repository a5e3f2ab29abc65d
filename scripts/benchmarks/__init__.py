# SPDX-License-Identifier: Apache-2.0
"""What scripts/bench has besides rocecoll.bench, which every user has.

launcher.py starts the ranks, on this host or on the hosts of networks.py; rank.py is one of them. In it take
turns, besides backends of torch: rocecoll without torch (core_peer.py), OpenMPI (mpi_peer.py), plain UDP
sockets (udp_peer.py with udp_limit.cc), each of rocecoll's algorithms (sweep.py) and gloo under several congestion
controls (tcp_peer.py). tables.py and page.py say what comes of it, network_page.py for scripts/network_matrix,
machine.py and cache_line.py where. native.py builds what is in C++, and commands.py runs what has to succeed.

Of a network network_spec.py knows the names, networks.py makes it with the devices of links.py, delay_line.py
(with delay_line.cc) is what delays there, marker.py what marks, and bulk_flow.py the TCP that goes beside.

Over RoCE, beside others in the same guest: yardsticks.py runs outside and prints the table of cases.py;
rounds.py runs in the guest and takes the blocks in turn; rocecoll_rank.py and openmpi_rank.py are the
processes that it times.
"""
