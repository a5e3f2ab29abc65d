// SPDX-License-Identifier: Apache-2.0
// The socket options by which the kernel segments and coalesces datagrams. <netinet/udp.h> has them
// since glibc 2.30; wheels are built with glibc 2.28 and may run on a kernel that knows them.
#pragma once

#include <netinet/udp.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
