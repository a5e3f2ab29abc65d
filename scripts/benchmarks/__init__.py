# SPDX-License-Identifier: Apache-2.0
"""What scripts/bench measures besides gloo: rocecoll over RoCE against others in the same guest.

yardsticks.py runs outside and prints the table; rounds.py runs in the guest and takes the blocks in
turn; rocecoll_rank.py and openmpi_rank.py are the processes that it times.
"""
