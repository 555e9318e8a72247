/* SPDX-License-Identifier: MIT */
/* All nodes, one after the other. See probe.h. */
#include "engine/redlock/probe.h"

#include "util/alloc.h"
#include "util/error.h"

#include <stdio.h>
#include <string.h>

void redlock_probe_init(struct redlock_probe *probe, const struct hfi_redis_conf *conf)
{
    memset(probe, 0, sizeof *probe);
    probe->conf = conf;
    probe->n = (unsigned)conf->url.host_count;
    snprintf(probe->key, sizeof probe->key, "%srl:cluster", conf->prefix);
}

void redlock_probe_done(struct redlock_probe *probe)
{
    for (unsigned i = 0; i < probe->n; i++)
        hfi_ask_close(probe->nodes[i].ask);
}

const char *redlock_probe_name(const struct redlock_probe *probe, unsigned node)
{
    return probe->conf->url.hosts[node].shown;
}

const char *redlock_probe_why(const struct redlock_probe *probe, unsigned node)
{
    return redlock_why(probe->conf, node, &probe->nodes[node].why);
}

hf_status redlock_probe_stuck(const struct redlock_probe *probe, enum hfi_stuck why, hf_error *err)
{
    const hf_error *whys[HFI_NODES_MAX];

    for (unsigned i = 0; i < probe->n; i++)
        whys[i] = &probe->nodes[i].why;
    return redlock_stuck_text(probe->conf, probe->views, probe->n, why, whys, err);
}

void redlock_probe_begin(const struct redlock_probe *probe, struct hfi_command *command,
                         const struct hfi_script *script)
{
    hfi_command_init_script(command, script, 1);
    command->whole = true; /* it is sent once */
    hfi_command_add_text(command, probe->key);
}

/* A broken connection is opened again by the next probe. */
static void drop_broken(struct redlock_probed *node, const hf_error *err)
{
    if (err->status != HF_UNAVAILABLE)
        return;
    hfi_ask_close(node->ask);
    node->ask = NULL;
}

static void take_letter(const struct hfi_reply *reply, void *arg)
{
    char *letter = arg;

    *letter = hfi_reply_letter(reply);
}

char redlock_probe_send(struct redlock_probe *probe, unsigned index, struct hfi_command *command,
                        hf_error *err)
{
    struct redlock_probed *node = &probe->nodes[index];
    char letter = 0;

    hfi_error_clear(err);
    if (!node->ask)
        hfi_error_set(err, HF_UNAVAILABLE, 0, "%s", node->why.text);
    else if (!hfi_ask_reply(node->ask, command, take_letter, &letter, err))
        drop_broken(node, err);
    else if (!letter)
        hfi_error_set(err, HF_CORRUPT, 0, "an unexpected answer");
    hfi_command_done(command);
    return letter;
}

static void take_status(const struct hfi_reply *reply, void *arg)
{
    struct redlock_probed *node = arg;

    if (!redlock_read_status(reply, &node->told))
        hfi_error_set(&node->why, HF_CORRUPT, 0, "it says something about itself that is not ours");
}

static void look_at(struct redlock_probe *probe, unsigned index)
{
    struct redlock_probed *node = &probe->nodes[index];
    struct hfi_command command;
    hf_error err;

    memset(&node->told, 0, sizeof node->told);
    hfi_error_clear(&node->why);
    if (!node->ask)
        (void)hfi_ask_open(probe->conf, &probe->conf->url.hosts[index], false, &node->ask,
                           &node->why);
    if (!node->ask)
        return;
    if (hfi_ask_server(node->ask)->is_replica) {
        hfi_error_set(&node->why, HF_CONFIG, 0, "it is a replica: it has no vote of its own");
        return;
    }
    if (probe->conf->wire == HFI_WIRE_PLAIN)
        return; /* it has no state to tell */
    redlock_probe_begin(probe, &command, &redlock_script_status);
    if (!hfi_ask_reply(node->ask, &command, take_status, node, &err)) {
        node->why = err;
        drop_broken(node, &err);
    }
    hfi_command_done(&command);
}

void redlock_probe_look(struct redlock_probe *probe)
{
    for (unsigned i = 0; i < probe->n; i++) {
        look_at(probe, i);
        probe->views[i] = probe->nodes[i].told.view;
    }
}
