/* SPDX-License-Identifier: MIT */
/*
 * The client of the naive ways on ZooKeeper: libzookeeper without threads, one request at a time. So it sends its pings only while it waits
 * for an answer or works by zk_work(), and a process that is stopped loses its session. An answer that was not expected ends the
 * actor (actor_fails()).
 */
#ifndef LAB_ZK_H
#define LAB_ZK_H

#include "stage.h"

/* Where; before the first call in an actor. A session lasts session_ms without pings. */
void zk_connect(struct actor *me, uint16_t port, int session_ms);
/* Create an ephemeral node. false: it exists. */
bool zk_create(struct actor *me, const char *path, const char *value);
/* The value of a node; its length, -1: there is no such node. */
int zk_get(struct actor *me, const char *path, char *ret_value, int room);
/* true: deleted. false: it was gone, or our session is. */
bool zk_delete(struct actor *me, const char *path);
void zk_work(struct actor *me, int64_t ms);

#endif
