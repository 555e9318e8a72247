/* SPDX-License-Identifier: MIT */
/* What our ways have in common: the store of the stage, opened in the actor's process; a status that was not expected ends the actor. */
#ifndef LAB_OURS_H
#define LAB_OURS_H

#include "stage.h"

#include <holdfast/holdfast.h>
#include <holdfast/primitives.h>

hf_store *ours_open(struct actor *me); /* stage->url */
hf_store *ours_open_at(struct actor *me, const char *url);
/* For stage_do(): open the store once before the play, so that the tables are there and no client of the play makes them. */
void ours_prepare(struct actor *me);
void ours_close(struct actor *me, hf_store *store);
/* Who has the name me->arg at this store, for an observer; see observe_fn. */
int ours_observe(struct actor *me, const char *url, uint64_t *ret_token);
void must(struct actor *me, hf_status status, const hf_error *err);
/* A request for the mutex `name` with this ttl, by me (label), waiting for ever; events LOST are noted in my lane. */
hf_acquire_request ours_request(struct actor *me, const char *name, int64_t ttl_ms);
/* A guarded number: claim it (present the token, then read), write it. They note CLAIM, READ, WRITE and REFUSED in lane `resource`. A refused
 * call is HF_FENCED. */
hf_status ours_claim(struct actor *me, hf_store *store, const char *name, int resource,
                     uint64_t token, int64_t *ret_value);
hf_status ours_write(struct actor *me, hf_store *store, const char *name, int resource,
                     uint64_t token, int64_t value);
/* The number in the bytes of a guard, which are freed; and the bytes of a number, and their length. */
int64_t guard_number(void *bytes);
size_t guard_text(char text[32], int64_t number);

#endif
