/* SPDX-License-Identifier: MIT */
/* Bytes between clients and a server, as the kernel counts them for its TCP sockets: the same
 * measure for every engine, whatever statistics its server keeps. */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include <stdint.h>

/* Payload in both directions of all connections to this port of the loopback that are open now, since
 * they were opened. NAN: the kernel does not tell. */
double wire_bytes(uint16_t port);

#endif
