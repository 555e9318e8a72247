/* SPDX-License-Identifier: MIT */
/* Which store a verb means, and opening it. */
#ifndef CLI_STORE_H
#define CLI_STORE_H

#include "cli.h"

#define PLACE_BUILT_IN "file:"
#define PASSWORD_ENVS  3 /* of a profile, and two of a URL */

struct cli_store {
    hf_store *store;
    hf_store_info info;
    char source[240]; /* for people: what chose it ("-S", "HOLDFAST_STORE", ...) */
    char *for_child;  /* what a child gets as HOLDFAST_STORE: no secret in it */
    char *handed;     /* the complete URL, for a `holdfast` in the command (util/handed.h); NULL:
                         for_child is enough */
    char *password_envs[PASSWORD_ENVS]; /* variables that hold a secret; NULL: none */
    char absent[HF_ERROR_TEXT_MAX];     /* store_look(): there is no store yet; where it would be */
};

/*
 * Find and open the store: `spec` (URL or profile) if not NULL, else -S, else
 * HOLDFAST_STORE, else the config file's default, else the embedded one.
 * EXIT_FINE, or the exit code after a message.
 */
int store_open(const struct cli *cli, const char *spec, struct cli_store *ret_store);
/*
 * The same for verbs that only inspect: nothing is created. EXIT_FINE also if there is no store
 * yet: `store` is NULL then, and info has only an engine's name and a location. A server may report
 * that only when it is inspected: HF_NOT_FOUND.
 */
int store_look(const struct cli *cli, const char *spec, struct cli_store *ret_store);
/* For verbs that only read, remove or end something: no embedded store is created for them. If
 * there is none, a message says so, `store` is NULL, `absent` is set, and the code is EXIT_FINE. */
int store_find(const struct cli *cli, struct cli_store *ret_store);
/* Which store it would be, without opening it: a URL for secret_free(), PLACE_BUILT_IN for the
 * built-in default. */
int store_url(const struct cli *cli, const char *spec, char **ret_url);
/* "file:PATH", PATH escaped as a URL needs it; free it. */
char *url_of_path(const char *path, bool shared);
/* How long a verb may wait, by -n and -w: what it took to open a store is taken off. */
int64_t store_wait_ms(const struct cli *cli);
/* Close it, whatever is still held. Accepts one that was never opened. */
void store_close(struct cli_store *store);
/* Likewise, and wait for the store no longer than that. false: it is not closed yet, see within(). */
bool store_close_within(struct cli_store *store, int64_t limit_ms);
/* Close it and leave behind a detached lease, for the process that has its handle. */
void store_leave(struct cli_store *store);

/* ---- become.c ---------------------------------------------------------------- */

/* Close the store and execute the command in our place. Returns, with an exit code, only if that fails. */
int become(struct cli *cli, struct cli_store *store);

/* ---- connecting.c ------------------------------------------------------------ */

/* Show a line on the terminal while `to` is being opened, if that takes a moment. Both accept NULL,
 * and this may return NULL. */
struct connecting *connecting_begin(const struct cli *cli, const char *to);
void connecting_end(struct connecting *connecting);

#endif
