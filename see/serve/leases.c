/* SPDX-License-Identifier: MIT */
/* The table of leases: by id and by key of its client; keys of leases that have ended. */
#include "leases.h"

#include "util/text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define BUCKETS 4096

/* All that is remembered of one client. When there is no room, the client that has most forgets its oldest: nobody can push out the keys
 * of another one. */
struct owner {
    struct owner *next;
    size_t count;
    struct past *first, *last; /* in the order of their ends */
    char client[CLIENT_NAME_MAX + 1];
};

struct past {
    struct past *next; /* in its bucket */
    struct past *later;
    struct owner *owner;
    int64_t ended_ms;
    char key[KEY_LEN_MAX + 1];
};

static struct lease *buckets[BUCKETS];
static struct lease *all;
static struct past *past_buckets[BUCKETS];
static struct owner *owners;
static size_t lease_count, past_count;

static size_t bucket_of(const char *client, const char *word)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (const char *at = client; *at; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
    for (const char *at = word; *at; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
    return (size_t)(hash >> 32) % BUCKETS;
}

struct lease *lease_new(const char *client)
{
    struct lease *lease = calloc(1, sizeof *lease);
    unsigned char random[LEASE_ID_LEN / 2];
    struct lease **bucket;

    /* The id is a secret: it is all that a release needs beside the token. */
    if (!lease || getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        free(lease);
        return NULL;
    }
    hfi_hex(random, sizeof random, lease->id);
    strcpy(lease->client, client);
    bucket = &buckets[bucket_of("", lease->id)];
    lease->next = *bucket;
    if (*bucket)
        (*bucket)->before = lease;
    *bucket = lease;
    lease->all_next = all;
    if (all)
        all->all_before = lease;
    all = lease;
    lease_count++;
    return lease;
}

static struct owner *owner_of(const char *client)
{
    struct owner *owner = owners;

    while (owner && strcmp(owner->client, client) != 0)
        owner = owner->next;
    if (owner)
        return owner;
    owner = calloc(1, sizeof *owner);
    if (!owner)
        return NULL;
    strcpy(owner->client, client);
    owner->next = owners;
    owners = owner;
    return owner;
}

static void past_drop_first(struct owner *owner)
{
    struct past *past = owner->first;
    struct past **at = &past_buckets[bucket_of(owner->client, past->key)];

    while (*at != past)
        at = &(*at)->next;
    *at = past->next;
    owner->first = past->later;
    if (!owner->first)
        owner->last = NULL;
    owner->count--;
    past_count--;
    free(past);
}

/* Of one line of the tokens' file each: there are few. */
static void past_make_room(void)
{
    struct owner *most = owners;

    for (struct owner *owner = owners; owner; owner = owner->next)
        if (owner->count > most->count)
            most = owner;
    past_drop_first(most);
}

static void past_expire(int64_t now_ms)
{
    for (struct owner **at = &owners, *owner; (owner = *at) != NULL;) {
        while (owner->first && owner->first->ended_ms + PAST_KEEP_MS < now_ms)
            past_drop_first(owner);
        if (owner->count > 0) {
            at = &owner->next;
        } else {
            *at = owner->next;
            free(owner);
        }
    }
}

static void past_add(const struct lease *lease)
{
    struct past *past = calloc(1, sizeof *past);
    struct past **bucket = &past_buckets[bucket_of(lease->client, lease->key)];

    if (past)
        past->owner = owner_of(lease->client);
    if (!past || !past->owner) {
        free(past);
        return;
    }
    if (past_count == PAST_MAX)
        past_make_room();
    strcpy(past->key, lease->key);
    past->ended_ms = clock_ms();
    past->next = *bucket;
    *bucket = past;
    if (past->owner->last)
        past->owner->last->later = past;
    else
        past->owner->first = past;
    past->owner->last = past;
    past->owner->count++;
    past_count++;
}

bool past_find(const char *client, const char *key)
{
    const struct past *past;

    past_expire(clock_ms());
    past = past_buckets[bucket_of(client, key)];
    while (past && (strcmp(past->key, key) != 0 || strcmp(past->owner->client, client) != 0))
        past = past->next;
    return past != NULL;
}

void lease_free(struct lease *lease)
{
    if (lease->key[0] && lease->token)
        past_add(lease);
    if (lease->next)
        lease->next->before = lease->before;
    if (lease->before)
        lease->before->next = lease->next;
    else
        buckets[bucket_of("", lease->id)] = lease->next;
    if (lease->all_next)
        lease->all_next->all_before = lease->all_before;
    if (lease->all_before)
        lease->all_before->all_next = lease->all_next;
    else
        all = lease->all_next;
    lease_count--;
    out_done(&lease->lines);
    free(lease);
}

struct lease *lease_find(const char *client, const char *id)
{
    struct lease *lease = buckets[bucket_of("", id)];

    while (lease && (strcmp(lease->id, id) != 0 || strcmp(lease->client, client) != 0))
        lease = lease->next;
    return lease;
}

/* Few have a key at a time that is asked for: those of one client, at most limits.leases. */
struct lease *lease_find_key(const char *client, const char *key)
{
    struct lease *lease = all;

    while (lease &&
           (lease->abandoned || strcmp(lease->key, key) != 0 || strcmp(lease->client, client) != 0))
        lease = lease->all_next;
    return lease;
}

size_t lease_count_of(const char *client)
{
    size_t count = 0;

    for (const struct lease *lease = all; lease; lease = lease->all_next)
        count += strcmp(lease->client, client) == 0;
    return count;
}

struct lease *lease_first(void)
{
    return all;
}

size_t leases_count(void)
{
    return lease_count;
}
