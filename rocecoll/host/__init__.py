# SPDX-License-Identifier: Apache-2.0
"""What this host has: processors, accelerators, network interfaces and their counters.

Everything is read from the kernel or a driver. Nothing here knows of options, ranks or torch.
"""
