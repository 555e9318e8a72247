/* SPDX-License-Identifier: MIT */
/*
 * A primary, a replica, and the sentinel that says which of them is the primary: real servers, new ones for each play. The replica is the
 * lane after the primary's.
 */
#ifndef LAB_PAIR_H
#define LAB_PAIR_H

#include "stage.h"

/* At the begin of a play: the two are in step. The play's time begins when this returns. stage->url is for ours: "redis+sentinel://...REST". */
void pair_begin(struct stage *stage, int primary_lane, const char *rest);
void pair_end(void);
/* Who has the lock of that name, by what each of the two says: a string, or our mutex. */
void pair_observe(struct stage *stage, const char *name);
void pair_observe_ours(struct stage *stage, const char *name);

/* The replica falls behind: it is stopped, and the primary's connection to it is cut. */
void pair_lag(struct stage *stage);
/* The primary is killed; the replica goes on, and does not have what it was not sent. */
void pair_kill_primary(struct stage *stage);
/* The sentinel makes the replica the primary; returns when it is. */
void pair_promote(struct stage *stage, const struct phrase *text);
/* The old primary is started again, as a replica of the new one; returns when it is in step. */
void pair_rejoin(struct stage *stage, const struct phrase *text);

/* The client of this lane asks this server from now on: the lane of the primary, or of the replica. For pictures. */
void pair_uses(struct stage *stage, int client, int server);
/* For naive actors: redis_*() calls go to the primary that the sentinel names now. */
void use_primary(struct actor *me);

#endif
