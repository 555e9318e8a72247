/* SPDX-License-Identifier: MIT */
/*
 * Messages on stderr: each is one write, without control characters. Every verb that holds or waits
 * for something calls say_without_waiting(); after that no message blocks: outlet.h says how and
 * why. Before that a blocked message delays only our caller.
 */
#include "cli.h"

#include "json.h"
#include "outlet.h"
#include "secret.h"
#include "table.h"
#include "util/json.h"
#include "util/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESSAGE_MAX 2048

static struct outlet outlet = OUTLET_INIT(STDERR_FILENO);
static bool waits_for_nobody;
static bool in_json;

void say_without_waiting(void)
{
    if (!waits_for_nobody)
        atexit(say_drain);
    waits_for_nobody = true;
}

void say_drain(void)
{
    outlet_drain(&outlet);
}

bool say_is_late(void)
{
    return !outlet_is_empty(&outlet);
}

/* A message that cannot be written has nowhere else to go. */
void say_bytes(const char *bytes, size_t len)
{
    if (waits_for_nobody)
        outlet_put(&outlet, bytes, len);
    else if (write(STDERR_FILENO, bytes, len) < 0)
        return;
}

void say_in_json(void)
{
    in_json = true;
}

void say_object(json_t *object)
{
    char *text;

    json_set_time(object);
    text = hfi_json_escape(json_dumps(object, JSON_COMPACT));
    if (text) {
        size_t len = strlen(text);

        text[len] = '\n'; /* in the place of its NUL */
        say_bytes(text, len + 1);
    }
    free(text);
}

static void print_json(const char *text)
{
    json_t *object = json_object();

    json_object_set_new(object, "event", json_string("message"));
    json_object_set_new(object, "text", json_string(text));
    say_object(object);
    json_decref(object);
}

static void print(const char *format, va_list list)
{
    static const char prefix[] = "holdfast: ";
    char text[MESSAGE_MAX];
    size_t used = sizeof prefix - 1;
    int len;

    memcpy(text, prefix, used);
    len = vsnprintf(text + used, sizeof text - used - 1, format, list);
    if (len < 0)
        return;

    hfi_disarm(text, true); /* shown() has quoted names; texts of the library have no lines */
    if (in_json) {
        print_json(text + sizeof prefix - 1);
        return;
    }
    used = strlen(text);
    text[used++] = '\n';
    say_bytes(text, used);
}

void say_error(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    print(format, list);
    va_end(list);
}

void say(const struct cli *cli, const char *format, ...)
{
    va_list list;

    if (cli->args.quiet)
        return;
    va_start(list, format);
    print(format, list);
    va_end(list);
}

void say_more(const struct cli *cli, const char *format, ...)
{
    va_list list;

    if (!cli->args.verbose)
        return;
    va_start(list, format);
    print(format, list);
    va_end(list);
}

int usage_error(const struct cli *cli, const char *format, ...)
{
    char text[MESSAGE_MAX / 2];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);

    if (cli->verb && strcmp(cli->verb->name, "help") == 0)
        say_error("%s: %s\nTry 'holdfast help'.", cli->verb->name, text);
    else if (cli->verb)
        say_error("%s: %s\nTry 'holdfast help %s'.", cli->verb->name, text, cli->verb->name);
    else
        say_error("%s\nTry 'holdfast help', or run a command: holdfast run NAME -- COMMAND", text);
    return EXIT_USAGE;
}

int say_failure(const hf_error *err)
{
    say_error("%s", err->text[0] ? err->text : hf_status_text(err->status));
    return exit_of(err->status);
}

/* Quotes `text`; a URL in the wrong place may have a password in it, which is masked. */
const char *shown(const char *text)
{
    static char ring[4][SHOWN_MAX];
    static unsigned next;
    char *clean = strstr(text, "://") ? url_without_secrets(text) : NULL;
    const char *result;

    if (clean)
        text = clean;
    result = hfi_quote_name(text, strlen(text), ring[next++ % 4], SHOWN_MAX);
    free(clean);
    return result;
}

int need_name(const struct cli *cli)
{
    const char *name = cli->args.name;

    if (!name)
        return usage_error(cli, "no NAME given");
    if (!*name)
        return usage_error(cli, "NAME is empty: it has 1 to %d bytes", HF_NAME_MAX);
    if (strlen(name) > HF_NAME_MAX)
        return usage_error(cli, "NAME has %zu bytes: at most %d are allowed", strlen(name),
                           HF_NAME_MAX);
    return EXIT_FINE;
}

void *must_alloc(size_t size)
{
    void *memory = calloc(1, size);

    if (!memory) {
        say_error("out of memory");
        exit(EXIT_INTERNAL);
    }
    return memory;
}

char *must_strdup(const char *text)
{
    size_t size = strlen(text) + 1;

    return memcpy(must_alloc(size), text, size);
}
