/* SPDX-License-Identifier: MIT */
/*
 * The greeting: authenticates us and identifies the server. All commands are sent at once, so that
 * it costs one round trip:
 *
 *   AUTH          if there is a password. Refused: HF_DENIED.
 *   HELLO 2       its role, its mode and our client's id; anybody may ask. Not needed.
 *   CLIENT SETNAME  for people who look at CLIENT LIST. Not needed.
 *   SELECT        if it is not database 0.
 *   INFO server, replication, persistence   run id, version, role. Needed: +info.
 *
 * So a user of ours needs +info beside the rights to its keys, channels and scripts.
 *
 * The others follow AUTH before we know whether it was accepted; if it was not, they are refused
 * too, and the error of AUTH counts. A server's text about AUTH is never shown: a server that does
 * not know the command would quote the password.
 */
#include "engine/redis/link_parts.h"

#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OLDEST_MAJOR 6
#define OLDEST_MINOR 2

enum step {
    STEP_AUTH,
    STEP_HELLO,
    STEP_NAME,
    STEP_SELECT,
    STEP_INFO_SERVER,
    STEP_INFO_REPLICATION,
    STEP_INFO_PERSISTENCE
};

static const char *const step_name[] = { "AUTH", "HELLO", "CLIENT SETNAME", "SELECT", "INFO",
                                         "INFO", "INFO" };

static void say(struct hfi_link *link, enum step step, const char *const *words);
static void say_auth(struct hfi_link *link);
static void refused(struct hfi_link *link, enum step step, const struct hfi_reply *reply);
static void learn(struct hfi_link *link, enum step step, const struct hfi_reply *reply);
static void learn_hello(struct hfi_server *server, const struct hfi_reply *reply);
static void learn_server(struct hfi_server *server, const struct hfi_reply *info);
static void all_said(struct hfi_link *link);
static bool info_line(const struct hfi_reply *info, const char *key, char *ret_value, size_t size);
static bool info_is(const struct hfi_reply *info, const char *key, const char *value);

void hfi_link_greet(struct hfi_link *link)
{
    char db[16];

    link->step = link->step_count = 0;
    memset(&link->server, 0, sizeof link->server);

    say_auth(link);
    say(link, STEP_HELLO, (const char *[]){ "HELLO", "2", NULL });
    if (link->brief)
        return;
    if (link->conf->client_name)
        say(link, STEP_NAME,
            (const char *[]){ "CLIENT", "SETNAME", link->conf->client_name, NULL });
    if (link->conf->db && !link->sentinel) {
        snprintf(db, sizeof db, "%u", link->conf->db);
        say(link, STEP_SELECT, (const char *[]){ "SELECT", db, NULL });
    }
    say(link, STEP_INFO_SERVER, (const char *[]){ "INFO", "server", NULL });
    if (!link->sentinel) {
        say(link, STEP_INFO_REPLICATION, (const char *[]){ "INFO", "replication", NULL });
        say(link, STEP_INFO_PERSISTENCE, (const char *[]){ "INFO", "persistence", NULL });
    }
}

static void say_auth(struct hfi_link *link)
{
    const struct hfi_redis_conf *conf = link->conf;
    const char *user = link->sentinel ? conf->sentinel_user : conf->url.user;
    const char *password = link->sentinel ? conf->sentinel_password : conf->url.secret;

    if (password && user)
        say(link, STEP_AUTH, (const char *[]){ "AUTH", user, password, NULL });
    else if (password)
        say(link, STEP_AUTH, (const char *[]){ "AUTH", password, NULL });
}

static void say(struct hfi_link *link, enum step step, const char *const *words)
{
    struct hfi_command command;

    hfi_command_init(&command);
    for (; *words; words++)
        hfi_command_add_text(&command, *words);
    hfi_link_queue(link, &command);
    if (step == STEP_AUTH)
        explicit_bzero(command.bytes, command.len);
    hfi_command_done(&command);
    link->steps[link->step_count++] = (unsigned char)step;
}

void hfi_link_greeted(struct hfi_link *link, const struct hfi_reply *reply)
{
    enum step step = (enum step)link->steps[link->step++];

    if (reply->type == HFI_REPLY_ERROR)
        refused(link, step, reply);
    else
        learn(link, step, reply);
    if (link->stream.failed == HF_OK && link->step == link->step_count)
        all_said(link);
}

/* A command of the greeting was refused. A reason that concerns the whole connection (no such user,
 * starting up, too many clients) is final; an error of one command is final only if we need that
 * command. */
static void refused(struct hfi_link *link, enum step step, const struct hfi_reply *reply)
{
    hf_error err;
    hf_status status = hfi_reply_status(reply, &err);
    bool optional = step == STEP_HELLO || step == STEP_NAME;
    bool general = hfi_reply_is_error(reply, "NOAUTH") || hfi_reply_is_error(reply, "DENIED") ||
                   status == HF_UNAVAILABLE;

    if (optional && !general)
        return;
    if (step == STEP_AUTH && status == HF_UNAVAILABLE)
        hfi_stream_fail(&link->stream, status, "%s", err.text);
    else if (step == STEP_AUTH)
        hfi_stream_fail(&link->stream, HF_DENIED, "AUTH: %s",
                        hfi_reply_is_error(reply, "WRONGPASS") ? "WRONGPASS: wrong user or password"
                        : hfi_reply_is_error(reply, "DENIED")  ? "DENIED: protected mode"
                                                               : "the server refused it");
    else if (hfi_reply_is_error(reply, "NOAUTH"))
        hfi_stream_fail(&link->stream, HF_DENIED,
                        "NOAUTH: the server wants a password: put password_file=FILE or "
                        "password_env=NAME into the URL");
    else if (step == STEP_SELECT && status != HF_DENIED && status != HF_UNAVAILABLE)
        hfi_stream_fail(&link->stream, HF_CONFIG, "SELECT %u: %s", link->conf->db, err.text);
    else if (status == HF_DENIED || status == HF_UNAVAILABLE || status == HF_VERSION)
        hfi_stream_fail(&link->stream, status, "%s: %s", step_name[step], err.text);
    else
        hfi_stream_fail(&link->stream, HF_UNAVAILABLE, "%s: %s", step_name[step], err.text);
}

static void learn(struct hfi_link *link, enum step step, const struct hfi_reply *reply)
{
    struct hfi_server *server = &link->server;

    if (step >= STEP_INFO_SERVER && reply->type != HFI_REPLY_TEXT) {
        hfi_stream_fail(&link->stream, HF_UNAVAILABLE, "the reply to INFO is not one");
        return;
    }
    switch (step) {
    case STEP_HELLO:
        learn_hello(server, reply);
        break;
    case STEP_INFO_SERVER:
        learn_server(server, reply);
        break;
    case STEP_INFO_REPLICATION:
        server->is_replica = info_is(reply, "role", "slave") || info_is(reply, "role", "replica");
        (void)info_line(reply, "master_replid", server->replid, sizeof server->replid);
        break;
    case STEP_INFO_PERSISTENCE:
        server->loading = info_is(reply, "loading", "1");
        break;
    default:
        break;
    }
}

/* Names and values alternate. INFO, which comes later, is more precise about everything but the
 * id. */
static void learn_hello(struct hfi_server *server, const struct hfi_reply *reply)
{
    for (size_t i = 0; i + 1 < reply->count; i += 2) {
        const struct hfi_reply *key = hfi_reply_at(reply, i, HFI_REPLY_TEXT);
        const struct hfi_reply *value = hfi_reply_at(reply, i + 1, HFI_REPLY_INTEGER);

        if (key && value && strcmp(key->text, "id") == 0 && value->integer > 0)
            server->client_id = (uint64_t)value->integer;
    }
}

static void learn_server(struct hfi_server *server, const struct hfi_reply *info)
{
    char *rest;

    (void)info_line(info, "run_id", server->run_id, sizeof server->run_id);
    (void)info_line(info, "redis_version", server->version, sizeof server->version);
    server->major = (unsigned)strtoul(server->version, &rest, 10);
    server->minor = *rest == '.' ? (unsigned)strtoul(rest + 1, NULL, 10) : 0;

    server->is_valkey = info_is(info, "server_name", "valkey");
    if (server->is_valkey)
        (void)info_line(info, "valkey_version", server->version, sizeof server->version);
    server->is_cluster = info_is(info, "redis_mode", "cluster");
}

static void all_said(struct hfi_link *link)
{
    const struct hfi_server *server = &link->server;

    if (link->brief) {
        hfi_link_up(link);
    } else if (!server->run_id[0] || !server->version[0]) {
        hfi_stream_fail(&link->stream, HF_VERSION,
                        "INFO has no run_id or redis_version: this is no Redis");
    } else if (server->major < OLDEST_MAJOR ||
               (server->major == OLDEST_MAJOR && server->minor < OLDEST_MINOR)) {
        hfi_stream_fail(&link->stream, HF_VERSION, "Redis %s is too old: %d.%d or newer is needed",
                        server->version, OLDEST_MAJOR, OLDEST_MINOR);
    } else {
        hfi_link_up(link);
    }
}

/* The value of "key:value\r\n" in what INFO said, cleaned. false: there is none, or it is too long. */
static bool info_line(const struct hfi_reply *info, const char *key, char *ret_value, size_t size)
{
    size_t key_len = strlen(key);

    for (const char *line = info->text; line; line = strchr(line, '\n')) {
        size_t len;

        line += *line == '\n';
        if (strncmp(line, key, key_len) != 0 || line[key_len] != ':')
            continue;
        line += key_len + 1;
        len = strcspn(line, "\r\n");
        if (len == 0 || len >= size)
            return false;
        for (size_t i = 0; i < len; i++)
            ret_value[i] = (char)(line[i] < 0x20 || line[i] > 0x7e ? '?' : line[i]);
        ret_value[len] = 0;
        return true;
    }
    return false;
}

static bool info_is(const struct hfi_reply *info, const char *key, const char *value)
{
    char found[32];

    return info_line(info, key, found, sizeof found) && strcmp(found, value) == 0;
}
