/* SPDX-License-Identifier: MIT */
/*
 * `holdfast script run FILE KEY... , ARG...`, and `load`, `exists`, `flush` and `kill`: scripts of the server. The
 * form is that of redis-cli --eval. `kill` opens no store: a server that is busy with a script lets nobody in.
 */
#include "holdfast/redis.h"
#include "json.h"
#include "secret.h"
#include "store.h"
#include "table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static bool is_sha(const char *word)
{
    return word && strlen(word) == HF_SCRIPT_SHA1_LEN &&
           strspn(word, "0123456789abcdefABCDEF") == HF_SCRIPT_SHA1_LEN;
}

/* What -e or a word of the command line gives: a text, or a SHA-1 as it is. */
static int read_script(const char *expression, const char *word, struct file *ret_file)
{
    const char *as_it_is = expression ? expression : is_sha(word) ? word : NULL;

    if (!as_it_is)
        return read_file(word, ret_file);
    *ret_file = (struct file){ must_strdup(as_it_is), strlen(as_it_is) };
    return EXIT_FINE;
}

/* The script is at fault, and not how we were called. */
static int say_script_failure(hf_status status, const hf_error *err)
{
    if (status != HF_INVALID && status != HF_NOT_FOUND)
        return say_failure(err);
    say_error("%s", err->text);
    return status == HF_INVALID ? EXIT_MISMATCH : EXIT_NO_INPUT;
}

static int run_it(struct cli *cli, const hf_script_request *script)
{
    struct cli_store store;
    hf_value *value = NULL;
    hf_status status;
    hf_error err;
    int code = store_open(cli, NULL, &store);

    if (code != EXIT_FINE)
        return code;
    status = hf_script_run(store.store, script, &value, &err);
    store_close(&store);
    if (status != HF_OK)
        return say_script_failure(status, &err);
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

static int run(struct cli *cli)
{
    hf_script_request script = HF_SCRIPT_REQUEST_INIT;
    bool by_sha = !cli->args.expression && is_sha(cli->args.name);
    struct file file;
    int code = read_script(cli->args.expression, cli->args.name, &file);

    if (code != EXIT_FINE)
        return code;
    script.text = by_sha ? NULL : file.text;
    script.text_len = file.len;
    script.sha1 = by_sha ? file.text : NULL;
    script.flags = cli->args.read_only ? HF_SCRIPT_FLAG_READ_ONLY : 0;
    if (cli->args.command)
        split(cli->args.command, &script);
    code = run_it(cli, &script);
    free(file.text);
    return code;
}

static int load_it(struct cli *cli, const struct file *file)
{
    char sha[HF_SCRIPT_SHA1_LEN + 1];
    struct cli_store store;
    hf_status status;
    hf_error err;
    int code = store_open(cli, NULL, &store);

    if (code != EXIT_FINE)
        return code;
    status = hf_script_load(store.store, file->text, file->len, sha, &err);
    store_close(&store);
    if (status != HF_OK)
        return say_script_failure(status, &err);
    if (cli->args.json) {
        json_t *object = json_object();

        json_object_set_new(object, "sha1", json_string(sha));
        json_print(object, true);
    } else if (!cli->args.quiet) {
        puts(sha);
    }
    return out_finish(cli);
}

static int load(struct cli *cli)
{
    struct file file;
    int code = cli->args.expression ? read_script(cli->args.expression, NULL, &file)
                                    : read_file(cli->args.name, &file);

    if (code != EXIT_FINE)
        return code;
    code = load_it(cli, &file);
    free(file.text);
    return code;
}

/* ---- exists ------------------------------------------------------------------------------------ */

/* The scripts that are asked for: how they were written, and what was read. */
struct asked {
    size_t count;
    const char **words;
    struct file *files;
    const char **texts;
    size_t *lens;
    bool *there;
};

static int asked_read(struct cli *cli, struct asked *asked)
{
    int code = EXIT_FINE;

    asked->count = cli->args.more.count + 1;
    asked->words = must_alloc(asked->count * sizeof *asked->words);
    asked->files = must_alloc(asked->count * sizeof *asked->files);
    asked->texts = must_alloc(asked->count * sizeof *asked->texts);
    asked->lens = must_alloc(asked->count * sizeof *asked->lens);
    asked->there = must_alloc(asked->count * sizeof *asked->there);
    for (size_t i = 0; i < asked->count && code == EXIT_FINE; i++) {
        asked->words[i] = i > 0                  ? cli->args.more.items[i - 1]
                          : cli->args.expression ? cli->args.expression
                                                 : cli->args.name;
        code = read_script(cli->args.expression, asked->words[i], &asked->files[i]);
        asked->texts[i] = asked->files[i].text;
        asked->lens[i] = asked->files[i].len;
    }
    return code;
}

static void asked_done(struct asked *asked)
{
    for (size_t i = 0; i < asked->count; i++)
        free(asked->files[i].text);
    free(asked->words);
    free(asked->files);
    free(asked->texts);
    free(asked->lens);
    free(asked->there);
}

static bool all_there(const struct asked *asked)
{
    for (size_t i = 0; i < asked->count; i++)
        if (!asked->there[i])
            return false;
    return true;
}

static void print_asked(const struct cli *cli, const struct asked *asked)
{
    json_t *object, *list, *one;

    if (cli->args.json) {
        object = json_object();
        list = json_array();
        json_object_set_new(object, "exists", json_boolean(all_there(asked)));
        for (size_t i = 0; i < asked->count; i++) {
            one = json_object();
            json_object_set_new(one, "script", json_text(asked->words[i], strlen(asked->words[i])));
            json_object_set_new(one, "exists", json_boolean(asked->there[i]));
            json_array_append_new(list, one);
        }
        json_object_set_new(object, "scripts", list);
        json_print(object, true);
        return;
    }
    for (size_t i = 0; i < asked->count && !cli->args.quiet; i++) {
        fputs(asked->there[i] ? "yes" : "no", stdout);
        if (asked->count > 1) {
            fputs("  ", stdout);
            out_safe(asked->words[i], strlen(asked->words[i]));
        }
        putchar('\n');
    }
}

static int ask_for(struct cli *cli, struct asked *asked)
{
    struct cli_store store;
    hf_status status;
    hf_error err;
    int code = store_open(cli, NULL, &store);

    if (code != EXIT_FINE)
        return code;
    status = hf_script_exists_each(store.store, asked->texts, asked->lens, asked->count,
                                   asked->there, &err);
    store_close(&store);
    if (status != HF_OK)
        return say_failure(&err);
    print_asked(cli, asked);
    code = out_finish(cli);
    return code != EXIT_FINE ? code : all_there(asked) ? EXIT_FINE : EXIT_ABSENT;
}

static int exists(struct cli *cli)
{
    struct asked asked = { 0 };
    int code = asked_read(cli, &asked);

    if (code == EXIT_FINE)
        code = ask_for(cli, &asked);
    asked_done(&asked);
    return code;
}

/* ---- the servers ---------------------------------------------------------------------------------- */

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
    if (strcmp(url, PLACE_BUILT_IN) == 0) {
        free(url);
        say_error("no store: give the URL of a Redis or its profile with -S");
        return EXIT_CONFIG;
    }
    status = hf_script_kill(url, cli->args.wait_ms, &err);
    secret_free(url);
    if (status == HF_OK)
        return EXIT_FINE;
    if (status == HF_UNSUPPORTED) {
        say_error("this engine runs no scripts, so there is none to kill");
        return EXIT_CONFIG;
    }
    code = say_failure(&err);
    return status == HF_IN_USE ? EXIT_BUSY : code;
}

struct script_action {
    const char *name;
    int (*run)(struct cli *cli);
    bool takes_script, takes_several, takes_read_only, takes_wait;
};

static int check_words(struct cli *cli, const struct script_action *action)
{
    const struct args *args = &cli->args;
    const char *extra = args->expression || !action->takes_script ? args->name : NULL;

    if (!extra && args->more.count > 0 && !action->takes_several)
        extra = args->more.items[0];
    if (extra)
        return usage_error(cli, "'%s' is one argument too many", shown(extra));
    if (args->expression && !action->takes_script)
        return usage_error(cli, "%s takes no --expression", action->name);
    if (args->read_only && !action->takes_read_only)
        return usage_error(cli, "%s takes no --read-only", action->name);
    if (args->wait_ms && !action->takes_wait)
        return usage_error(cli, "%s takes no --wait", action->name);
    if (action->takes_script && !args->name && !args->expression)
        return usage_error(cli, "no FILE given, and no text with -e");
    if (args->expression && !*args->expression)
        return usage_error(cli, "-e '' is no script");
    return EXIT_FINE;
}

int verb_script(struct cli *cli)
{
    static const struct script_action actions[] = {
        { "run", run, .takes_script = true, .takes_read_only = true },
        { "load", load, .takes_script = true },
        { "exists", exists, .takes_script = true, .takes_several = true },
        { .name = "flush", .run = flush },
        { "kill", stop, .takes_wait = true },
    };
    const char *name = cli->args.action;

    for (size_t i = 0; name && i < sizeof actions / sizeof *actions; i++) {
        int code;

        if (strcmp(actions[i].name, name) != 0)
            continue;
        code = check_words(cli, &actions[i]);
        return code == EXIT_FINE ? actions[i].run(cli) : code;
    }
    return usage_error(cli, "no action: run, load, exists, flush or kill");
}
