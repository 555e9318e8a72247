/* SPDX-License-Identifier: MIT */
/*
 * A network that fails when told to: a proxy on loopback, between the clients of
 * a test and one server, served by a thread of its own.
 *
 *   client  --UP-->  proxy  --UP-->  server
 *   client <-DOWN--  proxy <-DOWN--  server
 *
 * It can delay the bytes of a direction, hold them back (a black hole: as with lost packets they
 * arrive late, or never if the connection ends first), forward them slowly, or cut the connection
 * after a number of bytes. TCP never delivers bytes twice; the nearest thing is *late* delivery:
 * the client's side is cut, but the bytes that the client had written still reach the server, when
 * the test says so.
 *
 * Faults hold for connections of the chosen kind (PROXY_ANY by default), those
 * that exist and those to come. A connection that subscribed (LISTEN, the bell of
 * MariaDB) is a PUSH one.
 */
#ifndef TEST_PROXY_H
#define TEST_PROXY_H

#include <stdbool.h>
#include <stdint.h>

struct proxy;

enum proxy_way { PROXY_UP, PROXY_DOWN };
enum proxy_kind { PROXY_ANY, PROXY_CALLS, PROXY_PUSH };

struct proxy *proxy_start(uint16_t server_port);
/* The same before a server elsewhere, at an address of the internet. */
struct sockaddr_in;
struct proxy *proxy_start_to(const struct sockaddr_in *server);
void proxy_stop(struct proxy *proxy); /* closes all connections; NULL is fine */
uint16_t proxy_port(const struct proxy *proxy);
/* "redis://127.0.0.1:PORT" and what follows; static, good until the next call but three. */
const char *proxy_url(const struct proxy *proxy, const char *rest);

/* Choose the connections to which the calls below apply from now on. */
void proxy_choose(struct proxy *proxy, enum proxy_kind kind);

/* Delay every byte by this time. */
void proxy_delay(struct proxy *proxy, enum proxy_way way, int64_t ms);
/* Forward at most this many bytes in each millisecond; 0: no limit. */
void proxy_drip(struct proxy *proxy, enum proxy_way way, unsigned bytes);
/* Black hole: nothing passes until it is opened again. */
void proxy_block(struct proxy *proxy, enum proxy_way way, bool blocked);
/* After `bytes` more bytes in that direction the connection is cut, for both sides; once. UP: the
 * server gets exactly so many bytes. DOWN: the client gets exactly so many, and the server all. */
void proxy_cut_after(struct proxy *proxy, enum proxy_way way, int64_t bytes);
/* Has the last such cut happened? */
bool proxy_has_cut(struct proxy *proxy);
/* Cut all connections of the kind now; what is held back is lost. */
void proxy_cut(struct proxy *proxy);
/* The clients see their connections end now, but what they wrote, and we hold back (block UP
 * first), is kept until proxy_deliver(). */
void proxy_cut_late(struct proxy *proxy);
/* Send all kept bytes to the server, and wait until it has read them and sends no more answers. */
void proxy_deliver(struct proxy *proxy);
/* New connections are refused (accepted and closed at once) while on. */
void proxy_refuse(struct proxy *proxy, bool refused);
/* No fault any more; connections stay, but those cut late. */
void proxy_heal(struct proxy *proxy);

/* How many bytes came in that direction so far, how many wait here, how many connections were made. */
int64_t proxy_bytes(struct proxy *proxy, enum proxy_way way);
int64_t proxy_held(struct proxy *proxy, enum proxy_way way);
unsigned proxy_connections(struct proxy *proxy);

#endif
