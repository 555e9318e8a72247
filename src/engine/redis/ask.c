/* SPDX-License-Identifier: MIT */
/* One command and its answer, on a separate link. See ask.h. */
#include "engine/redis/ask.h"

#include "engine/engine.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NESTING_MAX 4

struct hfi_ask {
    struct hfi_reactor reactor; /* first: they are one address */
    struct hfi_link *link;
    struct redis_sent sent;
    bool answered;
    hfi_ask_take_fn *take; /* NULL: as text */
    void *take_arg;
    char *text;   /* the answer; NULL: an error, which is in `err` */
    hf_error why; /* the link went down */
    hf_error err;
};

static void up(struct hfi_link *link);
static void down(struct hfi_link *link, hf_status status, const char *why);
static void message(struct hfi_link *link, const char *channel, size_t channel_len,
                    const char *payload, size_t len);
static void answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe);
static char *await_answer(struct hfi_ask *ask, const struct hfi_command *command, hf_error *err);
static void turn(struct hfi_ask *ask);

static const struct hfi_link_owner owner = { .up = up, .down = down, .message = message };

/* ---- being there ----------------------------------------------------------------------------- */

enum manner { USUAL, SENTINEL, BRIEF };

static hf_status open_as(enum manner manner, const struct hfi_redis_conf *conf,
                         const struct hfi_address *address, struct hfi_ask **ret_ask, hf_error *err)
{
    struct hfi_ask *ask = hfi_calloc(1, sizeof *ask);
    hf_status status;

    if (!ask)
        return hfi_error_memory(err);
    status = hfi_reactor_init(&ask->reactor, NULL, NULL, err);
    if (status != HF_OK) {
        hfi_ask_close(ask);
        return status;
    }
    ask->link = hfi_link_new(conf, address, false, &ask->reactor, &owner, ask);
    if (!ask->link) {
        hfi_ask_close(ask);
        return hfi_error_memory(err);
    }
    if (manner == SENTINEL)
        hfi_link_to_sentinel(ask->link);
    else if (manner == BRIEF)
        hfi_link_be_brief(ask->link);

    /* The link's own time limits end this, with `up` or `down`. */
    hfi_link_open(ask->link, hfi_now_ms());
    while (hfi_link_state(ask->link) != HFI_STREAM_UP && ask->why.status == HF_OK)
        turn(ask);
    if (ask->why.status != HF_OK) {
        status = hfi_error_set(err, ask->why.status, 0, "%s", ask->why.text);
        hfi_ask_close(ask);
        return status;
    }
    *ret_ask = ask;
    return HF_OK;
}

hf_status hfi_ask_open(const struct hfi_redis_conf *conf, const struct hfi_address *address,
                       bool sentinel, struct hfi_ask **ret_ask, hf_error *err)
{
    return open_as(sentinel ? SENTINEL : USUAL, conf, address, ret_ask, err);
}

hf_status hfi_ask_open_brief(const struct hfi_redis_conf *conf, const struct hfi_address *address,
                             struct hfi_ask **ret_ask, hf_error *err)
{
    return open_as(BRIEF, conf, address, ret_ask, err);
}

void hfi_ask_close(struct hfi_ask *ask)
{
    if (!ask)
        return;
    if (ask->link)
        hfi_link_close(ask->link);
    hfi_link_free(ask->link);
    hfi_reactor_done(&ask->reactor);
    hfi_free(ask);
}

const struct hfi_server *hfi_ask_server(const struct hfi_ask *ask)
{
    return hfi_link_server(ask->link);
}

static void up(struct hfi_link *link)
{
    (void)link;
}

static void down(struct hfi_link *link, hf_status status, const char *why)
{
    struct hfi_ask *ask = hfi_link_data(link);

    hfi_error_set(&ask->why, status, 0, "%s", why);
}

static void message(struct hfi_link *link, const char *channel, size_t channel_len,
                    const char *payload, size_t len)
{
    (void)link, (void)channel, (void)channel_len, (void)payload, (void)len;
}

/* Wait for the socket or for the link's next time limit, and let the link act. */
static void turn(struct hfi_ask *ask)
{
    hfi_reactor_turn(&ask->reactor, HFI_NEVER);
}

/* ---- asking ---------------------------------------------------------------------------------- */

char *hfi_ask(struct hfi_ask *ask, const char *const *words, hf_error *err)
{
    struct hfi_command command;
    char *text;

    hfi_command_init(&command);
    for (; *words; words++)
        hfi_command_add_text(&command, *words);
    text = hfi_ask_command(ask, &command, err);
    hfi_command_done(&command);
    return text;
}

char *hfi_ask_command(struct hfi_ask *ask, const struct hfi_command *command, hf_error *err)
{
    ask->take = NULL;
    return await_answer(ask, command, err);
}

bool hfi_ask_reply(struct hfi_ask *ask, const struct hfi_command *command, hfi_ask_take_fn *take,
                   void *arg, hf_error *err)
{
    char *text;

    ask->take = take;
    ask->take_arg = arg;
    text = await_answer(ask, command, err);
    hfi_free(text);
    return text != NULL;
}

static char *await_answer(struct hfi_ask *ask, const struct hfi_command *command, hf_error *err)
{
    if (command->failed) {
        hfi_error_memory(err);
        return NULL;
    }
    ask->answered = false;
    ask->text = NULL;
    ask->sent.answered = answered;
    hfi_link_send(ask->link, command, &ask->sent);
    hfi_link_flush(ask->link);
    while (!ask->answered)
        turn(ask);
    if (!ask->text)
        hfi_error_set(err, ask->err.status, 0, "%s",
                      ask->err.text[0] ? ask->err.text : ask->why.text);
    return ask->text;
}

static void put(FILE *out, const struct hfi_reply *reply, int depth)
{
    if (reply->type == HFI_REPLY_INTEGER)
        fprintf(out, "%lld", (long long)reply->integer);
    else if (reply->type == HFI_REPLY_TEXT || reply->type == HFI_REPLY_STATE)
        fwrite(reply->text, 1, reply->len, out);
    if (depth == NESTING_MAX)
        return;
    for (size_t i = 0; reply->type == HFI_REPLY_LIST && i < reply->count; i++) {
        if (i > 0)
            putc('\n', out);
        put(out, &reply->items[i], depth + 1);
    }
}

static char *as_text(const struct hfi_reply *reply)
{
    char *made = NULL, *text;
    size_t len = 0;
    FILE *out = open_memstream(&made, &len);

    if (!out)
        return NULL;
    put(out, reply, 0);
    text = fclose(out) == 0 ? hfi_strdup(made) : NULL;
    free(made);
    return text;
}

static void answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe)
{
    struct hfi_ask *ask = hfi_container(sent, struct hfi_ask, sent);

    (void)maybe;
    ask->answered = true;
    if (!reply) {
        hfi_error_set(&ask->err, HF_UNAVAILABLE, 0, "%s", ask->why.text);
        return;
    }
    if (reply->type == HFI_REPLY_ERROR) {
        (void)hfi_reply_status(reply, &ask->err);
        return;
    }
    if (ask->take)
        ask->take(reply, ask->take_arg);
    ask->text = ask->take ? hfi_strdup("") : as_text(reply);
    if (!ask->text)
        hfi_error_memory(&ask->err);
}

/* ---- what doctors ask ------------------------------------------------------------------------------ */

bool hfi_ask_setting(struct hfi_ask *ask, const char *name, char *ret_value, size_t size,
                     hf_error *err)
{
    char *text = hfi_ask(ask, (const char *[]){ "CONFIG", "GET", name, NULL }, err);
    const char *line = text ? strchr(text, '\n') : NULL;

    if (text)
        hfi_error_clear(err);
    snprintf(ret_value, size, "%s", line ? line + 1 : "");
    hfi_free(text);
    return line != NULL;
}

static int64_t wall_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* The server read its clock between our two readings: assume the middle, with half of the interval
 * as the error. */
hf_status hfi_ask_clock(struct hfi_ask *ask, int tries, int64_t *ret_ahead_us,
                        int64_t *ret_error_us, hf_error *err)
{
    *ret_error_us = INT64_MAX;
    for (int i = 0; i < tries; i++) {
        int64_t before_us = wall_us(), after_us, s = 0, us = 0;
        char *text = hfi_ask(ask, (const char *[]){ "TIME", NULL }, err), *line;

        after_us = wall_us();
        if (!text)
            return err->status;
        s = strtoll(text, &line, 10);
        us = *line == '\n' ? strtoll(line + 1, NULL, 10) : 0;
        hfi_free(text);
        if (s <= 0 || s >= HFI_TOLD_S_MAX || us < 0 || us >= 1000000)
            return hfi_error_set(err, HF_CORRUPT, 0, "a time that no server has");
        if ((after_us - before_us + 1) / 2 < *ret_error_us) {
            *ret_error_us = (after_us - before_us + 1) / 2;
            *ret_ahead_us = s * 1000000 + us - (before_us + after_us) / 2;
        }
    }
    return HF_OK;
}

/* ---- INFO ------------------------------------------------------------------------------------- */

const char *hfi_info(const char *info, const char *key, char *value, size_t size)
{
    size_t key_len = strlen(key);

    *value = 0;
    for (const char *line = info; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, key_len) != 0 || line[key_len] != ':')
            continue;
        line += key_len + 1;
        snprintf(value, size, "%.*s", (int)strcspn(line, "\r\n"), line);
        for (char *c = value; *c; c++)
            if (*c < 0x20 || *c == 0x7f)
                *c = '?';
        break;
    }
    return value;
}
