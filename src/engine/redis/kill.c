/* SPDX-License-Identifier: MIT */
/*
 * Kills a script that does not end.
 *
 * While a script runs the server does nothing else. When it has run for longer than
 * busy-reply-threshold (lua-time-limit before Redis 7; 5 s) the server does not stop it, but
 * answers BUSY to everything except a few commands, among them SCRIPT KILL, AUTH and HELLO. The
 * connection that runs the script is blocked, and that may be any of ours. So the kill uses a new
 * connection with a short greeting, and waits for a server that does not answer before its
 * threshold. Only a script that has not written yet is killed.
 *
 * On the calling thread, which it blocks.
 */
#include "engine/redis/address.h"
#include "engine/redis/ask.h"
#include "engine/redis/internal.h"

#include "util/alloc.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

static bool begins(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

/* At one server. HF_NOT_FOUND: none runs there. HF_IN_USE: it cannot be killed any more. */
static hf_status kill_at(const struct hfi_redis_conf *conf, const struct hfi_address *address,
                         int64_t wait_ms, hf_error *err)
{
    struct hfi_redis_conf patient = *conf;
    struct hfi_ask *ask = NULL;
    hf_status status;
    char *text;

    patient.connect_ms = patient.op_ms = wait_ms;
    status = hfi_ask_open_brief(&patient, address, &ask, err);
    if (status != HF_OK)
        return status;
    text = hfi_ask(ask, (const char *[]){ "SCRIPT", "KILL", NULL }, err);
    hfi_ask_close(ask);
    if (text) {
        hfi_free(text);
        return HF_OK;
    }
    if (begins(err->text, "NOTBUSY"))
        return hfi_error_set(err, HF_NOT_FOUND, 0, "no script runs");
    if (begins(err->text, "UNKILLABLE"))
        err->status = HF_IN_USE;
    return hfi_error_wrap(err, "%s", address->shown);
}

/* Of several servers: a killed script counts most, then the reason why one was not killed. */
static int weight(hf_status status)
{
    return status == HF_OK ? 3 : status == HF_IN_USE ? 2 : status == HF_NOT_FOUND ? 0 : 1;
}

static hf_status kill_at_all(const struct hfi_redis_conf *conf,
                             const struct hfi_address *const *addresses, size_t count,
                             int64_t wait_ms, hf_error *err)
{
    hf_status total = hfi_error_set(err, HF_NOT_FOUND, 0, "no script runs"), status;
    hf_error one;

    for (size_t i = 0; i < count; i++) {
        status = kill_at(conf, addresses[i], wait_ms, &one);
        if (weight(status) > weight(total)) {
            total = status;
            *err = one;
        }
    }
    return total;
}

/* The master, according to the first sentinel that answers. */
static struct hfi_address *ask_sentinels(const struct hfi_redis_conf *conf, hf_error *err)
{
    struct hfi_address *master = NULL;

    for (size_t i = 0; i < conf->url.host_count && !master; i++) {
        struct hfi_ask *ask = NULL;
        char *text, *port;

        if (hfi_ask_open(conf, &conf->url.hosts[i], true, &ask, err) != HF_OK)
            continue;
        text = hfi_ask(
            ask, (const char *[]){ "SENTINEL", "GET-MASTER-ADDR-BY-NAME", conf->master, NULL },
            err);
        port = text ? strchr(text, '\n') : NULL;
        if (port)
            master =
                hfi_address_new(text, (size_t)(port - text), (uint16_t)strtoul(port + 1, NULL, 10));
        if (!master)
            hfi_error_set(err, HF_UNAVAILABLE, 0, "%s: does not know the master",
                          conf->url.hosts[i].shown);
        hfi_free(text);
        hfi_ask_close(ask);
    }
    return master;
}

static hf_status kill_by_conf(const struct hfi_redis_conf *conf, int64_t wait_ms, hf_error *err)
{
    const struct hfi_address *addresses[HFI_HOSTS_MAX];
    struct hfi_address *master;
    hf_status status;

    if (conf->topology == REDIS_TOPOLOGY_SENTINEL) {
        master = ask_sentinels(conf, err);
        if (!master)
            return err->status;
        status = kill_at(conf, master, wait_ms, err);
        hfi_address_free(master);
        return status;
    }
    for (size_t i = 0; i < conf->url.host_count; i++)
        addresses[i] = &conf->url.hosts[i];
    return kill_at_all(conf, addresses, conf->url.host_count, wait_ms, err);
}

hf_status redis_kill_script(struct hfi_conf *conf, int64_t wait_ms, hf_error *err)
{
    struct hfi_redis_conf *redis = (struct hfi_redis_conf *)conf;
    hf_status status = redis_conf_finish(redis, "", err);

    if (status == HF_OK)
        status = kill_by_conf(redis, wait_ms, err);
    redis_conf_done(redis);
    return status;
}
