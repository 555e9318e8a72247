/* SPDX-License-Identifier: MIT */
/*
 * Which store? -S, else what hf_open(NULL) means: util/place.h has the rule. Here is what the
 * command does beside it: secrets stay with it, and a child gets what leads to the same store.
 */
#include "store.h"

#include "secret.h"
#include "util/clock.h"
#include "util/handed.h"
#include "util/place.h"
#include "within.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define OLD_DEFAULT "/var/lib/holdfast" /* of all users, until version 0.1 */
#define SHARED      "?shared=group"     /* in a location of the library and in a URL */

static int choose(const struct cli *cli, const char *spec, struct cli_store *store, char **ret_url);
static void keep_secrets(struct cli_store *store, const struct hfi_place *place);
static int check_relative(const struct cli *cli, const char *url, const char *source);
static bool is_embedded(const char *url);
static char *url_of_location(const char *location);
static void note_absent(struct cli_store *store, const char *url, const hf_error *err);
static void wipe_environment(const struct cli_store *store);

#define OPEN_MS 5000 /* the library's own limit */

static int64_t spent_ms; /* time spent to reach the store */

/* A store that is created because of a misspelt URL protects nothing: so the command that creates
 * one says so. An embedded store is opened without creating it first, so that we know; a server
 * does not tell. */
static hf_status open_or_make(const char *url, const hf_open_options *options, hf_store **ret_store,
                              bool *ret_made, hf_error *err)
{
    hf_open_options existing = *options;
    hf_status status;

    existing.flags |= HF_OPEN_FLAG_EXISTING;
    if (options->flags & HF_OPEN_FLAG_EXISTING || !is_embedded(url))
        return hf_open(url, options, ret_store, err);
    status = hf_open(url, &existing, ret_store, err);
    if (status != HF_NOT_FOUND)
        return status;
    *ret_made = true;
    return hf_open(url, options, ret_store, err);
}

/* -n: if the server is away, fail at once. -w D: the time to open the store counts. */
static hf_status reach(const struct cli *cli, const char *url, uint64_t flags,
                       struct cli_store *store, bool *ret_made, hf_error *err)
{
    const struct args *args = &cli->args;
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    struct connecting *connecting = connecting_begin(cli, store->for_child ? store->for_child : "");
    int64_t begun_ms = hfi_now_ms();
    hf_status status;

    options.open_wait_ms = args->open_ms                              ? args->open_ms
                           : args->wait_ms && args->wait_ms < OPEN_MS ? args->wait_ms
                                                                      : OPEN_MS;
    options.flags = flags | (args->nonblock ? HF_OPEN_FLAG_ONCE : 0);
    status = open_or_make(url, &options, &store->store, ret_made, err);
    connecting_end(connecting);
    spent_ms += hfi_now_ms() - begun_ms;
    return status;
}

static int open_with(const struct cli *cli, const char *spec, uint64_t flags,
                     struct cli_store *ret_store)
{
    struct cli_store store = { .info.size = sizeof store.info };
    bool made = false;
    char *url = NULL;
    hf_status status;
    hf_error err;
    int code;

    code = choose(cli, spec, &store, &url);
    if (code == EXIT_FINE)
        code = check_relative(cli, url, store.source);
    if (code != EXIT_FINE) {
        store_leave(&store);
        secret_free(url);
        return code;
    }

    status = reach(cli, url, flags, &store, &made, &err);
    if (status == HF_NOT_FOUND && flags & HF_OPEN_FLAG_EXISTING)
        note_absent(&store, url, &err);
    secret_free(url);
    wipe_environment(&store);
    if (store.absent[0]) {
        *ret_store = store;
        ret_store->info.location = ret_store->absent;
        return EXIT_FINE;
    }
    if (status != HF_OK) {
        store_leave(&store);
        return say_failure(&err);
    }

    status = hf_store_get(store.store, &store.info);
    if (status != HF_OK) {
        store_leave(&store);
        say_error("%s", hf_status_text(status));
        return exit_of(status);
    }
    say_more(cli, "store %s (engine %s), from %s", shown(store.info.location), store.info.engine,
             store.source);
    if (strcmp(store.source, HFI_BUILT_IN) == 0 && access(OLD_DEFAULT "/store", F_OK) == 0 &&
        strncmp(store.info.location, "file:" OLD_DEFAULT, strlen("file:" OLD_DEFAULT)) != 0)
        say_more(cli, "there is another store in " OLD_DEFAULT
                      ", the default of an older version; see holdfast-engines(7)");
    if (made)
        say(cli, "new store created: %s", shown(store.info.location));

    /* A relative path or the default would mean another store in another directory or for another
     * user: a child gets the absolute path. */
    if (strncmp(store.info.location, "file:/", 6) == 0) {
        free(store.for_child);
        store.for_child = url_of_location(store.info.location);
    }
    *ret_store = store;
    return EXIT_FINE;
}

/* The library has read what it needs. */
static void wipe_environment(const struct cli_store *store)
{
    char *url = getenv("HOLDFAST_STORE");

    for (size_t i = 0; i < PASSWORD_ENVS; i++)
        env_wipe(store->password_envs[i]);
    if (url && strchr(url, ':'))
        hfi_url_wipe(url);
}

int store_open(const struct cli *cli, const char *spec, struct cli_store *ret_store)
{
    return open_with(cli, spec, 0, ret_store);
}

int store_look(const struct cli *cli, const char *spec, struct cli_store *ret_store)
{
    return open_with(cli, spec, HF_OPEN_FLAG_EXISTING, ret_store);
}

int store_find(const struct cli *cli, struct cli_store *ret_store)
{
    char *url = NULL;
    int code = store_url(cli, NULL, &url);
    bool embedded = is_embedded(url);

    secret_free(url);
    if (code != EXIT_FINE)
        return code;
    code = embedded ? store_look(cli, NULL, ret_store) : store_open(cli, NULL, ret_store);
    if (code == EXIT_FINE && ret_store->absent[0])
        say(cli, "no store yet at %s", ret_store->info.location);
    return code;
}

/* Does the list `words` ("redis rediss") have the scheme of `url`? */
static bool has_scheme(const char *words, const char *url)
{
    size_t len = strcspn(url, ":");

    for (; *words; words += strcspn(words, " "), words += strspn(words, " "))
        if (strcspn(words, " ") == len && strncmp(words, url, len) == 0)
            return true;
    return false;
}

/* The library's text "no store yet at LOCATION" is all that is known of the store. */
static void note_absent(struct cli_store *store, const char *url, const hf_error *err)
{
    const char *place = strstr(err->text, " at ");
    const hf_engine_info *info;

    snprintf(store->absent, sizeof store->absent, "%s", place ? place + strlen(" at ") : "?");
    store->info.engine = "?";
    for (size_t i = 0; (info = hf_engine_get(i)); i++)
        if (has_scheme(info->schemes, url))
            store->info.engine = info->name;
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

static void close_with(struct cli_store *store, uint64_t flags)
{
    if (store->store)
        hf_close(store->store, flags);
    free(store->for_child);
    secret_free(store->handed);
    store->store = NULL;
    store->for_child = store->handed = NULL;
    for (size_t i = 0; i < PASSWORD_ENVS; i++)
        free(store->password_envs[i]);
    memset(store->password_envs, 0, sizeof store->password_envs);
}

void store_close(struct cli_store *store)
{
    close_with(store, HF_CLOSE_FLAG_RELEASE);
}

static void close_handle(void *handle)
{
    hf_close(handle, HF_CLOSE_FLAG_RELEASE);
}

bool store_close_within(struct cli_store *store, int64_t limit_ms)
{
    bool closed = !store->store || within(limit_ms, close_handle, store->store);

    store->store = NULL;
    close_with(store, 0);
    return closed;
}

void store_leave(struct cli_store *store)
{
    close_with(store, 0);
}

/* A path may hold bytes that have a meaning in a URL. */
char *url_of_path(const char *path, bool shared)
{
    char *url = must_alloc(3 * strlen(path) + sizeof "file:" SHARED);
    char *to = stpcpy(url, "file:");

    for (; *path; path++) {
        unsigned char c = (unsigned char)*path;

        if (c == '%' || c == '?' || c < 0x20 || c == 0x7f)
            to += sprintf(to, "%%%02X", c);
        else
            *to++ = (char)c;
    }
    if (shared)
        strcpy(to, SHARED);
    return url;
}

/* A location is the path as it is, and what the URL said of sharing. */
static char *url_of_location(const char *location)
{
    char *path = must_strdup(location + strlen("file:")), *url;
    size_t len = strlen(path), tail = strlen(SHARED);
    bool shared = len > tail && strcmp(path + len - tail, SHARED) == 0;

    if (shared)
        path[len - tail] = 0;
    url = url_of_path(path, shared);
    free(path);
    return url;
}

/* ---- relative paths --------------------------------------------------------------- */

static bool is_embedded(const char *url)
{
    return url && strncasecmp(url, "file:", 5) == 0;
}

/*
 * "file:locks" means another store, and so another lock, in every working directory. A person at a terminal is
 * told which one it is. A job of cron or of a service manager has nobody to tell: it is refused.
 */
static int check_relative(const struct cli *cli, const char *url, const char *source)
{
    const char *rest = is_embedded(url) ? url + strlen("file:") : "/";
    char here[PATH_MAX], *begin;

    if (*rest == '/' || *rest == 0 || *rest == '?')
        return EXIT_FINE;
    if (!getcwd(here, sizeof here))
        strcpy(here, "/?");
    begin = url_of_path(strcmp(here, "/") == 0 ? "" : here, false);
    if (isatty(STDIN_FILENO) || isatty(STDOUT_FILENO) || isatty(STDERR_FILENO)) {
        say(cli,
            "the store 'file:%s' (from %s) is relative: here it is %s/%s, elsewhere another one",
            rest, source, begin, rest);
        free(begin);
        return EXIT_FINE;
    }
    say_error("the store 'file:%s' (from %s) is relative, so it depends on the working directory; "
              "without a terminal "
              "that is refused: write %s/%s",
              rest, source, begin, rest);
    free(begin);
    return EXIT_CONFIG;
}

/* ---- choosing ----------------------------------------------------------------- */

/* *ret_url: a copy for secret_free(). */
static int choose(const struct cli *cli, const char *spec, struct cli_store *store, char **ret_url)
{
    struct hfi_place place;
    hf_error err;

    if (hfi_place_find(spec ? spec : cli->args.store, "the command line", &place, &err) != HF_OK)
        return say_failure(&err);
    snprintf(store->source, sizeof store->source, "%s", place.source);
    if (strcmp(place.source, HFI_BUILT_IN) != 0)
        keep_secrets(store, &place);
    *ret_url = must_strdup(place.url);
    hfi_place_done(&place);
    return EXIT_FINE;
}

/* A child gets no secret: none in HOLDFAST_STORE, and no variable that holds one. A `holdfast` in it
 * asks us for the complete URL. */
static void keep_secrets(struct cli_store *store, const struct hfi_place *place)
{
    bool secret = place->has_password || hfi_url_has_secret(place->url);

    if (place->password_env)
        store->password_envs[0] = must_strdup(place->password_env);
    store->password_envs[1] = hfi_url_value(place->url, "password_env");
    store->password_envs[2] = hfi_url_value(place->url, "sentinel_password_env");
    if (secret && place->instead)
        store->for_child = must_strdup(place->instead);
    else
        store->for_child = url_without_secrets(place->url);
    if (secret || store->password_envs[1])
        store->handed = url_with_its_password(place->url);
}
