/* SPDX-License-Identifier: MIT */
/*
 * Which store? -S, else HOLDFAST_STORE, else the config file's default, else
 * the embedded default of the library. What contains a ':' is a URL, anything
 * else the name of a profile. The config file is read only if it is needed: a
 * URL must work, and fast, whatever state the config file is in.
 */
#include "store.h"

#include "secret.h"
#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

static int choose(const struct cli *cli, const char *spec, struct cli_store *store, char **ret_url);
static int from_profile(const char *name, struct cli_store *store, char **ret_url);
static void note_password_envs(struct cli_store *store, const char *url);
static char *url_of_path(const char *path);
static hf_status reach(const struct cli *cli, const char *url, struct cli_store *store,
                       hf_error *err);

#define OPEN_MS 5000 /* the library's own limit */

static int64_t spent_ms; /* in reaching a store */

int store_open(const struct cli *cli, const char *spec, struct cli_store *ret_store)
{
    struct cli_store store = { .info.size = sizeof store.info };
    char *url = NULL;
    hf_status status;
    hf_error err;
    int code;

    code = choose(cli, spec, &store, &url);
    if (code != EXIT_FINE)
        return code;

    status = reach(cli, url, &store, &err);
    if (url)
        explicit_bzero(url, strlen(url));
    free(url);
    if (status != HF_OK) {
        store_leave(&store);
        return say_failure(&err);
    }

    status = hf_info(store.store, &store.info);
    if (status != HF_OK) {
        store_leave(&store);
        say_error("%s", hf_status_text(status));
        return exit_of(status);
    }
    say_more(cli, "store %s (engine %s), from %s", shown(store.info.location), store.info.engine,
             store.source);

    /* A relative path or the default would mean another store in another directory or for
     * another user: a child gets the place itself. */
    if (strncmp(store.info.location, "file:/", 6) == 0) {
        free(store.for_child);
        store.for_child = url_of_path(store.info.location + strlen("file:"));
    }
    *ret_store = store;
    return EXIT_FINE;
}

/* -n: a server that is away is an answer. -w D: opening it is a part of the waiting. */
static hf_status reach(const struct cli *cli, const char *url, struct cli_store *store,
                       hf_error *err)
{
    const struct args *args = &cli->args;
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    struct connecting *connecting = connecting_begin(cli, store->for_child ? store->for_child : "");
    int64_t begun_ms = hfi_now_ms();
    hf_status status;

    options.open_wait_ms = args->open_ms                              ? args->open_ms
                           : args->wait_ms && args->wait_ms < OPEN_MS ? args->wait_ms
                                                                      : OPEN_MS;
    if (args->nonblock)
        options.flags = HF_OPEN_ONCE;
    status = hf_open(url, &options, &store->store, err);
    connecting_end(connecting);
    spent_ms += hfi_now_ms() - begun_ms;
    return status;
}

int64_t store_wait_ms(const struct cli *cli)
{
    const struct args *args = &cli->args;

    if (args->nonblock)
        return 0;
    if (!args->wait_ms)
        return HF_FOREVER;
    return args->wait_ms > spent_ms ? args->wait_ms - spent_ms : 1; /* it is open: one last try */
}

int store_url(const struct cli *cli, const char *spec, char **ret_url)
{
    struct cli_store store = { .store = NULL };
    int code;

    *ret_url = NULL;
    code = choose(cli, spec, &store, ret_url);
    store_leave(&store);
    return code;
}

static void close_with(struct cli_store *store, unsigned flags)
{
    if (store->store)
        hf_close(store->store, flags);
    free(store->for_child);
    store->store = NULL;
    store->for_child = NULL;
    for (size_t i = 0; i < PASSWORD_ENVS; i++)
        free(store->password_envs[i]);
    memset(store->password_envs, 0, sizeof store->password_envs);
}

void store_close(struct cli_store *store)
{
    close_with(store, HF_CLOSE_RELEASE);
}

void store_leave(struct cli_store *store)
{
    close_with(store, 0);
}

/* A path may hold bytes that mean something in a URL. */
static char *url_of_path(const char *path)
{
    char *url = must_alloc(3 * strlen(path) + sizeof "file:");
    char *to = stpcpy(url, "file:");

    for (; *path; path++) {
        unsigned char c = (unsigned char)*path;

        if (c == '%' || c == '?' || c < 0x20 || c == 0x7f)
            to += sprintf(to, "%%%02X", c);
        else
            *to++ = (char)c;
    }
    return url;
}

/* ---- choosing ----------------------------------------------------------------- */

/* *ret_url: a copy for the caller to wipe and free; NULL: the library's default. */
static int choose(const struct cli *cli, const char *spec, struct cli_store *store, char **ret_url)
{
    const char *source = "the command line";

    if (!spec)
        spec = cli->args.store;
    if (!spec) {
        spec = getenv("HOLDFAST_STORE");
        source = "HOLDFAST_STORE";
    }
    if (!spec)
        return from_profile(NULL, store, ret_url);
    if (!*spec) {
        say_error("the store from %s is empty: give a URL or the name of a profile", source);
        return EXIT_CONFIG;
    }
    if (!strchr(spec, ':'))
        return from_profile(spec, store, ret_url);

    snprintf(store->source, sizeof store->source, "%s", source);
    store->for_child = url_without_secrets(spec);
    note_password_envs(store, spec);
    *ret_url = must_strdup(spec);
    return EXIT_FINE;
}

/* A child shall not inherit them. */
static void note_password_envs(struct cli_store *store, const char *url)
{
    store->password_envs[1] = url_param(url, "password_env");
    store->password_envs[2] = url_param(url, "sentinel_password_env");
}

static int from_profile(const char *name, struct cli_store *store, char **ret_url)
{
    struct profile profile;
    int code = config_profile(name, &profile);

    if (code != EXIT_FINE)
        return code;
    if (!profile.url) {
        snprintf(store->source, sizeof store->source, "the built-in default");
        return EXIT_FINE;
    }

    snprintf(store->source, sizeof store->source, "%s", profile.file);
    if (profile.password_env)
        store->password_envs[0] = must_strdup(profile.password_env);
    note_password_envs(store, profile.url);
    if (profile.has_password || url_has_secret(profile.url))
        store->for_child = must_strdup(profile.name);
    else
        store->for_child = must_strdup(profile.url);
    *ret_url = profile.url;
    return EXIT_FINE;
}
