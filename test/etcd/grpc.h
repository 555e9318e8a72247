/* SPDX-License-Identifier: MIT */
/*
 * gRPC to an etcd by hand: one connection, one request at a time, blocking. The least that a client of one's own would do:
 * for tests that look behind the engine's back, and as the limit of the benchmark. Messages are those of the engine's codec.
 * One thread each.
 */
#ifndef TEST_ETCD_GRPC_H
#define TEST_ETCD_GRPC_H

#include "engine/etcd/proto.h"

#define GRPC_TEXT_ROOM 200

struct grpc;

/* To 127.0.0.1. `tls`: a directory with ca.crt, client.crt and client.key, or NULL. NULL: it cannot be reached. */
struct grpc *grpc_open(uint16_t port, const char *tls);
void grpc_close(struct grpc *grpc); /* NULL is fine */

/* One request of `body`, which is one message. 0: *ret_reply is the answer, good until the next; else gRPC's code, and
 * *ret_text says more; -1: no answer, and the connection cannot be used any more. */
int grpc_ask(struct grpc *grpc, const char *path, const struct etcd_text *body, const char *token,
             struct etcd_message *ret_reply, const char **ret_text);

#endif
