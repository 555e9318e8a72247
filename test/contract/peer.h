/* SPDX-License-Identifier: MIT */
/*
 * A peer: another client of the same store that executes commands of the test. It is another
 * process if the engine serves several (so that it can be killed and stopped), else a thread with a
 * handle of its own. One command at a time; a lease is called by a number from 0 to PEER_LEASES -
 * 1.
 */
#ifndef PEER_H
#define PEER_H

#include "contract.h"
#include "holdfast/primitives.h"

#define PEER_LEASES 40

struct peer {
    int fd, served_fd;
    long pid; /* 0: a thread */
    pthread_t thread;
    char url[512];
};

void peer_start(struct peer *peer);
/* Let it close its store, with HF_CLOSE_FLAG_RELEASE, and end. */
void peer_stop(struct peer *peer);
/* Only a process: */
void peer_signal(struct peer *peer, int signal);
void peer_kill(struct peer *peer); /* SIGKILL, and wait for its end */

/* He leaves at once without a word to the store. */
void peer_exit(struct peer *peer);
/* He makes a child, by fork() or by posix_spawn(), that lives until peer_orphans_end(). */
void peer_make_child(struct peer *peer, bool fork);
/* SIGKILL for this process only; its children live on. */
void peer_kill_alone(struct peer *peer);
void peer_orphans_end(struct peer *peer);

/* Begin to acquire; only name, kind, capacity, permits, flags, times, scope and label are passed on. */
void peer_begin(struct peer *peer, int lease, const hf_acquire_request *request);
/* How that ended. */
hf_status peer_join(struct peer *peer, int lease, uint64_t *ret_token);
/* Both. */
hf_status peer_acquire(struct peer *peer, int lease, const hf_acquire_request *request);

hf_status peer_release(struct peer *peer, int lease);
hf_state peer_state(struct peer *peer, int lease);
void peer_handle(struct peer *peer, int lease, char ret_text[HF_LEASE_TEXT_MAX]);
/* Take and release the name `count` times; each time raise the two numbers in the file at `path`
 * by one, not atomically, and check that they were equal. Returns at once; peer_idle() waits. */
void peer_hammer(struct peer *peer, const char *name, hf_kind kind, int count, const char *path);
/* Add 1 to the counter, `count` times; likewise. */
void peer_add(struct peer *peer, const char *name, int count);
/* Take permits of a limit `count` times, one or two at once, waiting or not, and append the moment and
 * number of each grant to the file at `path`. Returns at once; peer_idle() waits. */
void peer_limit(struct peer *peer, const hf_limit_request *limit, int count, const char *path);
/* Take some of NAMES "step0", "step1", ... in their order, `count` times; none of it may fail. As above. */
void peer_climb(struct peer *peer, int names, int count, unsigned seed);
hf_status climb(hf_store *store, int names, int count, unsigned seed);
void peer_idle(struct peer *peer);
/* Put the text into the cell (NULL: delete it). */
hf_status peer_put(struct peer *peer, const char *name, const char *text);
/* Raise the number in the cell by one, `count` times. Returns at once; peer_idle() waits. */
void peer_count(struct peer *peer, const char *name, int count);
hf_status peer_count_here(hf_store *store, const char *name, int count); /* the same, here */

/* The other end: serve commands from `fd` until it is closed or told to stop. */
void peer_serve(int fd, const char *url);

#endif
