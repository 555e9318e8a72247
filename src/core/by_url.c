/* SPDX-License-Identifier: MIT */
/*
 * Calls that administer the store of a URL without opening it (it may be in no state to be opened): hf_sql_get_schema(),
 * hf_script_kill(), hf_redlock_*(). All on the calling thread. Inside, an engine still takes words and answers with findings
 * (engine->admin->manage()); the words of a Redlock node are "key=value key=value why=all the rest".
 */
#include "core/conf.h"
#include "core/registry.h"
#include "core/store.h"
#include "holdfast/redis.h"
#include "util/alloc.h"
#include "util/buffer.h"
#include "util/error.h"
#include "util/url.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A call that some engines have. */
struct command {
    const char *engines; /* separated by blanks */
    const char *const *words;
};

static bool has_engine(const char *engines, const char *name)
{
    const char *at = strstr(engines, name);
    size_t len = strlen(name);

    return at && (at == engines || at[-1] == ' ') && (at[len] == 0 || at[len] == ' ');
}

static hf_status manage_parsed(struct hfi_url *url, const struct command *command,
                               hfi_finding_fn *finding, void *arg, hf_error *err)
{
    const struct hfi_engine *engine;
    hf_status status = hfi_registry_find(url->scheme, &engine, err);
    struct hfi_conf *conf = NULL;
    char *shown;

    if (status != HF_OK)
        return status;
    if (!engine->admin || !engine->admin->manage ||
        !has_engine(command->engines, engine->promises->name))
        return hfi_error_set(err, HF_UNSUPPORTED, 0, "%s: this engine has nothing to administer",
                             engine->promises->name);
    status = hfi_conf_read(url, engine->conf, &conf, err);
    if (status == HF_OK)
        status = engine->admin->manage(conf, command->words, finding, arg, err);
    hfi_conf_free(conf);
    if (status != HF_OK && status != HF_INVALID) {
        shown = hfi_url_redacted(url);
        hfi_error_wrap(err, "%s", shown ? shown : url->scheme);
        hfi_free(shown);
    }
    return status;
}

static hf_status manage(const char *text, const struct command *command, hfi_finding_fn *finding,
                        void *arg, hf_error *err)
{
    struct hfi_url url;
    hf_status status;

    if (!text || !*text)
        return hfi_error_set(err, HF_INVALID, 0, "url: NULL or empty");
    hfi_alloc_seal();
    hfi_ok(err);
    status = hfi_url_parse(text, &url, err);
    if (status != HF_OK)
        return status;
    status = manage_parsed(&url, command, finding, arg, err);
    hfi_url_done(&url);
    return status;
}

/* ---- SQL --------------------------------------------------------------------------------------- */

struct schema {
    struct hfi_buffer text;
    bool failed;
};

/* A statement, or several: as they would be sent, each ended by ";\n". */
static void add_statement(hf_check_level level, const char *topic, const char *text, void *arg)
{
    struct schema *schema = arg;
    size_t len = strlen(text);
    char *to;

    (void)level;
    (void)topic;
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == ';'))
        len--;
    to = hfi_buffer_reserve(&schema->text, len + 2);
    if (!to) {
        schema->failed = true;
        return;
    }
    memcpy(to, text, len);
    memcpy(to + len, ";\n", 2);
    schema->text.len += len + 2;
}

hf_status hf_sql_get_schema(const char *url, char **ret_sql, hf_error *err)
{
    static const char *const words[] = { "sql", NULL };
    static const struct command command = { "postgres mariadb", words };
    struct schema schema = { .failed = false };
    hf_status status;
    char *sql = NULL;

    if (!ret_sql)
        return hfi_error_set(err, HF_INVALID, 0, "ret_sql: NULL");
    status = manage(url, &command, add_statement, &schema, err);
    if (status == HF_OK && !schema.failed)
        sql = hfi_strndup(schema.text.bytes ? schema.text.bytes + schema.text.start : "",
                          schema.text.len);
    hfi_buffer_done(&schema.text);
    if (status == HF_OK && !sql)
        return hfi_error_memory(err);
    if (status == HF_OK)
        *ret_sql = sql;
    return status;
}

/* ---- scripts ----------------------------------------------------------------------------------- */

static void ignore(hf_check_level level, const char *topic, const char *text, void *arg)
{
    (void)level, (void)topic, (void)text, (void)arg;
}

hf_status hf_script_kill(const char *url, int64_t wait_ms, hf_error *err)
{
    char wait[24];
    const char *words[] = { "script-kill", wait, NULL };
    const struct command command = { "redis", words };

    if (wait_ms < 0 || wait_ms > HF_DURATION_MAX_MS)
        return hfi_error_set(err, HF_INVALID, 0, "wait_ms: negative, or more than ten years");
    snprintf(wait, sizeof wait, "%" PRId64, wait_ms ? wait_ms : HF_SCRIPT_KILL_WAIT_MS);
    return manage(url, &command, ignore, NULL, err);
}

/* ---- Redlock ----------------------------------------------------------------------------------- */

struct status {
    hf_redlock_status status; /* first: callers hold a pointer to it */
    size_t count;
    hf_redlock_node *nodes;
};

/* What an engine says of a node, one after the other, as it is said: name, NUL, words, NUL. */
struct survey {
    struct hfi_buffer texts;
    size_t count;
    bool failed;
    hf_redlock_status cluster;
};

static const char *const states[] = { "ready", "empty", "unfit", "unreachable" };
static const char *const steps[] = { "nothing", "start", "mark",     "wait", "seal",
                                     "install", "lift",  "operator", "nodes" };

/* The value of `key` in the words of a node, and its length; "" if it is not there. */
static const char *value_of(const char *words, const char *key, size_t *ret_len)
{
    size_t key_len = strlen(key);

    while (words && *words) {
        bool rest = strncmp(words, "why=", 4) == 0;

        if (strncmp(words, key, key_len) == 0 && words[key_len] == '=') {
            words += key_len + 1;
            *ret_len = rest ? strlen(words) : strcspn(words, " ");
            return words;
        }
        words = rest ? NULL : strchr(words, ' ');
        if (words)
            words++;
    }
    *ret_len = 0;
    return "";
}

static uint64_t number_of(const char *words, const char *key)
{
    size_t len;

    return strtoull(value_of(words, key, &len), NULL, 10);
}

/* Which of `names` the value is; `none` if it is none of them. */
static int word_of(const char *words, const char *key, const char *const *names, int count,
                   int none)
{
    size_t len;
    const char *value = value_of(words, key, &len);

    for (int i = 0; i < count; i++)
        if (strlen(names[i]) == len && memcmp(names[i], value, len) == 0)
            return i;
    return none;
}

/* A copy of the value in `*room`, which is moved on. */
static const char *text_of(const char *words, const char *key, char **room)
{
    size_t len;
    const char *value = value_of(words, key, &len);
    char *to = *room;

    memcpy(to, value, len);
    to[len] = 0;
    *room += len + 1;
    return to;
}

static void add_cluster(struct survey *survey, const char *words)
{
    survey->cluster = (hf_redlock_status){
        .votes = (uint32_t)number_of(words, "votes"),
        .needed = (uint32_t)number_of(words, "needed"),
        .nodes = (uint32_t)number_of(words, "nodes"),
        .next = (hf_redlock_step)word_of(words, "next", steps, 9, HF_REDLOCK_STEP_OPERATOR),
        .wait_ms = (int64_t)number_of(words, "wait_ms"),
    };
}

static void add_node(hf_check_level level, const char *topic, const char *words, void *arg)
{
    struct survey *survey = arg;
    size_t topic_len = strlen(topic) + 1, words_len = strlen(words) + 1;
    char *to;

    (void)level;
    if (strcmp(topic, "cluster") == 0) {
        add_cluster(survey, words);
        return;
    }
    to = hfi_buffer_reserve(&survey->texts, topic_len + words_len);
    if (!to) {
        survey->failed = true;
        return;
    }
    memcpy(to, topic, topic_len);
    memcpy(to + topic_len, words, words_len);
    survey->texts.len += topic_len + words_len;
    survey->count++;
}

static void read_node(hf_redlock_node *node, const char *words, char **room)
{
    size_t len;

    node->state = (hf_redlock_state)word_of(words, "state", states, 4, HF_REDLOCK_STATE_UNFIT);
    node->votes = *value_of(words, "votes", &len) == 'y';
    node->epoch = number_of(words, "epoch");
    node->epoch_id = text_of(words, "epoch_id", room);
    node->cluster = text_of(words, "cluster", room);
    node->lag = number_of(words, "lag");
    node->nodes = (uint32_t)number_of(words, "nodes");
    node->max_ttl_ms = (int64_t)number_of(words, "max_ttl_ms");
    node->top = number_of(words, "top");
    node->floor = number_of(words, "floor");
    node->names = number_of(words, "names");
    node->marker = text_of(words, "marker", room);
    node->age_ms = (int64_t)number_of(words, "age_ms");
    node->why = text_of(words, "why", room);
}

/* One block: the status, the nodes, their texts, of which none is longer than what was said. */
static hf_redlock_status *pack(const struct survey *survey)
{
    struct status *status = hfi_calloc(1, sizeof *status + survey->count * sizeof(hf_redlock_node) +
                                              survey->texts.len + 4 * survey->count);
    const char *at = survey->texts.bytes ? survey->texts.bytes + survey->texts.start : "";
    char *room;

    if (!status)
        return NULL;
    status->status = survey->cluster;
    status->count = survey->count;
    status->nodes = (void *)(status + 1);
    room = (char *)(status->nodes + survey->count);
    for (size_t i = 0; i < survey->count; i++) {
        status->nodes[i].name = strcpy(room, at);
        room += strlen(at) + 1;
        at += strlen(at) + 1;
        read_node(&status->nodes[i], at, &room);
        at += strlen(at) + 1;
    }
    return &status->status;
}

hf_status hf_redlock_get_status(const char *url, hf_redlock_status **ret_status, hf_error *err)
{
    static const char *const words[] = { "status", NULL };
    static const struct command command = { "redlock", words };
    struct survey survey = { .count = 0 };
    hf_redlock_status *packed = NULL;
    hf_status status;

    if (!ret_status)
        return hfi_error_set(err, HF_INVALID, 0, "ret_status: NULL");
    *ret_status = NULL;
    status = manage(url, &command, add_node, &survey, err);
    if (survey.count > 0 && !survey.failed)
        packed = pack(&survey);
    hfi_buffer_done(&survey.texts);
    if (survey.count > 0 && !packed)
        return hfi_error_memory(err);
    *ret_status = packed;
    return status;
}

const hf_redlock_node *hf_redlock_get_node(const hf_redlock_status *status, size_t index)
{
    const struct status *whole = (const void *)status;

    return status && index < whole->count ? &whole->nodes[index] : NULL;
}

hf_status hf_redlock_join(const char *url, const char *node, uint64_t flags, hf_redlock_fn *told,
                          void *arg, hf_error *err)
{
    const char *words[4] = { "join" };
    const struct command command = { "redlock", words };
    size_t count = 1;

    if (flags & ~HF_REDLOCK_JOIN_FLAG_FORCE)
        return hfi_error_set(err, HF_INVALID, 0, "flags: unknown bits 0x%" PRIx64,
                             flags & ~HF_REDLOCK_JOIN_FLAG_FORCE);
    if (flags & HF_REDLOCK_JOIN_FLAG_FORCE)
        words[count++] = "--force";
    if (node)
        words[count++] = node;
    return manage(url, &command, told ? told : ignore, arg, err);
}
