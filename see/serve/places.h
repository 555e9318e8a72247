/* SPDX-License-Identifier: MIT */
/*
 * Who loses its place when all are taken. A connection whose last request had a token of ours keeps its place. Of the others one is
 * pushed out for each that comes: the oldest one of the address that has most. So a crowd pushes out itself first, and a client with a
 * token needs a place only until its request is read.
 *
 * No number of connections for each address is fixed: behind a proxy, and on this machine, all have the same.
 *
 * Pure: no socket is touched. One thread.
 */
#ifndef SERVE_PLACES_H
#define SERVE_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct party; /* all connections of one address */

struct place {
    struct place *next, *before; /* the newest first */
    struct party *party;
    bool has_token, watching, leaving;
};

struct places {
    struct place *newest;
    struct party *parties;
    size_t count;    /* without those that are leaving */
    size_t watching; /* likewise, and without a token */
};

/* false: no memory; then it is not among them. NULL: an address that is not known. */
bool places_add(struct places *places, struct place *place, const struct sockaddr *address);
void places_remove(struct places *places, struct place *place);
/* What its last request was. */
void places_is(struct places *places, struct place *place, bool has_token, bool watching);
/* The one to push out, marked as leaving: of all, or of those that watch. NULL: all have a token. */
struct place *places_push(struct places *places, bool watching);

#endif
