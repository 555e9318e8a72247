/* SPDX-License-Identifier: MIT */
/*
 * `holdfast script run FILE KEY... , ARG...`, and `exists`, `flush` and `kill`: scripts of the server. The form
 * is that of redis-cli --eval. `kill` opens no store: a server that is busy with a script lets nobody in.
 */
#include "holdfast/redis.h"
#include "json.h"
#include "store.h"
#include "table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHA_LEN 40

struct file {
    char *text;
    size_t len;
};

/* ---- the script --------------------------------------------------------------------------- */

static char *grow(char *text, size_t room)
{
    char *larger = realloc(text, room + 1);

    if (larger)
        return larger;
    say_error("out of memory");
    exit(EXIT_INTERNAL);
}

/* At most one byte more than allowed is read: the library refuses that. */
static void read_all(FILE *from, struct file *file)
{
    size_t room = 4096, got;

    file->text = grow(NULL, room);
    while (file->len <= HF_SCRIPT_MAX) {
        if (file->len == room) {
            room *= 2;
            file->text = grow(file->text, room);
        }
        got = fread(file->text + file->len, 1, room - file->len, from);
        if (got == 0)
            break;
        file->len += got;
    }
    file->text[file->len] = 0;
}

/* All of a file, or of standard input ("-"). */
static int read_file(const char *path, struct file *ret_file)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *from = standard ? stdin : fopen(path, "re");
    int error = from ? 0 : errno;

    *ret_file = (struct file){ 0 };
    if (from) {
        errno = 0;
        read_all(from, ret_file);
        if (ferror(from))
            error = errno ? errno : EIO;
    }
    if (from && !standard)
        fclose(from);
    if (!error)
        return EXIT_FINE;
    free(ret_file->text);
    say_error("%s: %s", shown(path), strerror(error));
    return EXIT_NO_INPUT;
}

/* ---- what it answers ------------------------------------------------------------------------ */

static json_t *value_json(const hf_value *value)
{
    size_t len;
    const char *bytes = hf_value_get_bytes(value, &len);
    json_t *json;

    switch (hf_value_get_kind(value)) {
    case HF_VALUE_KIND_NIL:
        break;
    case HF_VALUE_KIND_INTEGER:
        return json_i64(hf_value_get_integer(value));
    case HF_VALUE_KIND_BYTES:
    case HF_VALUE_KIND_STATE:
        return json_text(bytes, len);
    case HF_VALUE_KIND_ERROR:
        json = json_object();
        json_object_set_new(json, "error", json_text(bytes, len));
        return json;
    case HF_VALUE_KIND_LIST:
        json = json_array();
        for (size_t i = 0; i < hf_value_get_count(value); i++)
            json_array_append_new(json, value_json(hf_value_get_item(value, i)));
        return json;
    }
    return json_null();
}

/* One value per line; those of a list inside a list are indented. */
static void print_value(const hf_value *value, int depth)
{
    size_t len;
    const char *bytes = hf_value_get_bytes(value, &len);

    if (hf_value_get_kind(value) == HF_VALUE_KIND_LIST && hf_value_get_count(value) > 0) {
        for (size_t i = 0; i < hf_value_get_count(value); i++)
            print_value(hf_value_get_item(value, i), depth + 1);
        return;
    }
    printf("%*s", depth > 1 ? 2 * (depth - 1) : 0, "");
    switch (hf_value_get_kind(value)) {
    case HF_VALUE_KIND_NIL:
        fputs("(nil)", stdout);
        break;
    case HF_VALUE_KIND_LIST:
        fputs("(empty)", stdout);
        break;
    case HF_VALUE_KIND_INTEGER:
        printf("%" PRId64, hf_value_get_integer(value));
        break;
    case HF_VALUE_KIND_ERROR:
        fputs("(error) ", stdout);
        out_safe(bytes, len);
        break;
    case HF_VALUE_KIND_BYTES:
    case HF_VALUE_KIND_STATE:
        if (isatty(STDOUT_FILENO))
            out_safe(bytes, len);
        else
            fwrite(bytes, 1, len, stdout);
        break;
    }
    putchar('\n');
}

/* ---- the actions ----------------------------------------------------------------------------- */

static size_t count_words(char *const *words)
{
    size_t count = 0;

    while (words[count])
        count++;
    return count;
}

/* Keys come before the ",", arguments after it. */
static void split(char **words, hf_script_request *script)
{
    script->keys = (const char *const *)words;
    while (words[script->key_count] && strcmp(words[script->key_count], ",") != 0)
        script->key_count++;
    if (!words[script->key_count])
        return;
    script->args = (const char *const *)words + script->key_count + 1;
    script->arg_count = count_words(words + script->key_count + 1);
}

static int run(struct cli *cli)
{
    hf_script_request script = HF_SCRIPT_REQUEST_INIT;
    struct cli_store store;
    struct file file;
    hf_value *value = NULL;
    hf_status status;
    hf_error err;
    int code;

    if (!cli->args.name)
        return usage_error(cli, "no FILE given");
    code = read_file(cli->args.name, &file);
    if (code != EXIT_FINE)
        return code;
    code = store_open(cli, NULL, &store);
    if (code != EXIT_FINE) {
        free(file.text);
        return code;
    }
    script.text = file.text;
    script.text_len = file.len;
    if (cli->args.command)
        split(cli->args.command, &script);
    status = hf_script_run(store.store, &script, &value, &err);
    store_close(&store);
    free(file.text);
    if (status == HF_INVALID) { /* the script is at fault, and not how we were called */
        say_error("%s", err.text);
        return EXIT_MISMATCH;
    }
    if (status != HF_OK)
        return say_failure(&err);
    if (cli->args.json) {
        json_t *object = json_object();

        json_object_set_new(object, "value", value_json(value));
        json_print(object, true);
    } else if (!cli->args.quiet) {
        print_value(value, 0);
    }
    hf_free(value);
    return out_finish(cli);
}

static bool is_sha(const char *word)
{
    return strlen(word) == SHA_LEN && strspn(word, "0123456789abcdefABCDEF") == SHA_LEN;
}

static int exists(struct cli *cli)
{
    struct cli_store store;
    struct file file = { 0 };
    hf_status status;
    hf_error err;
    bool there = 0, code = EXIT_FINE;

    if (!cli->args.name)
        return usage_error(cli, "no FILE or SHA given");
    if (is_sha(cli->args.name))
        file = (struct file){ must_strdup(cli->args.name), SHA_LEN };
    else
        code = read_file(cli->args.name, &file);
    if (code != EXIT_FINE)
        return code;
    code = store_open(cli, NULL, &store);
    if (code != EXIT_FINE) {
        free(file.text);
        return code;
    }
    status = hf_script_exists(store.store, file.text, file.len, &there, &err);
    store_close(&store);
    free(file.text);
    if (status != HF_OK)
        return say_failure(&err);
    if (cli->args.json) {
        json_t *object = json_object();

        json_object_set_new(object, "exists", json_boolean(there));
        json_print(object, true);
    } else if (!cli->args.quiet) {
        puts(there ? "yes" : "no");
    }
    code = out_finish(cli);
    return code != EXIT_FINE ? code : there ? EXIT_FINE : EXIT_ABSENT;
}

static int flush(struct cli *cli)
{
    struct cli_store store;
    hf_status status;
    hf_error err;
    int code = store_open(cli, NULL, &store);

    if (code != EXIT_FINE)
        return code;
    status = hf_script_flush(store.store, &err);
    store_close(&store);
    return status == HF_OK ? EXIT_FINE : say_failure(&err);
}

static int stop(struct cli *cli)
{
    char *url = NULL;
    hf_status status;
    hf_error err;
    int code = store_url(cli, NULL, &url);

    if (code != EXIT_FINE)
        return code;
    if (!url) {
        say_error("no store: give the URL of a Redis or its profile with -S");
        return EXIT_CONFIG;
    }
    status = hf_script_kill(url, cli->args.wait_ms, &err);
    explicit_bzero(url, strlen(url));
    free(url);
    if (status == HF_OK)
        return EXIT_FINE;
    if (status == HF_UNSUPPORTED) {
        say_error("this engine runs no scripts, so there is none to kill");
        return EXIT_CONFIG;
    }
    code = say_failure(&err);
    return status == HF_IN_USE ? EXIT_BUSY : code;
}

int verb_script(struct cli *cli)
{
    static const struct {
        const char *name;
        int (*run)(struct cli *cli);
        bool takes_file, takes_wait;
    } actions[] = {
        { "run", run, true, false },
        { "exists", exists, true, false },
        { "flush", flush, false, false },
        { "kill", stop, false, true },
    };
    const char *action = cli->args.action;

    for (size_t i = 0; action && i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(actions[i].name, action) != 0)
            continue;
        if (cli->args.name && !actions[i].takes_file)
            return usage_error(cli, "'%s' is one argument too many", shown(cli->args.name));
        if (cli->args.value)
            return usage_error(cli, "'%s' is one argument too many", shown(cli->args.value));
        if (cli->args.wait_ms && !actions[i].takes_wait)
            return usage_error(cli, "%s takes no --wait", action);
        return actions[i].run(cli);
    }
    return usage_error(cli, "what to do: run, exists, flush or kill?");
}
