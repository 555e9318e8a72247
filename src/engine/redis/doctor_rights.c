/* SPDX-License-Identifier: MIT */
/*
 * May our user run all commands that locks need? It is found by trying: rights.lua runs every
 * command of the other scripts, on keys of its own, and reports which of them were refused. (The
 * error of an ordinary script does not say at which command it stopped.)
 */
#include "engine/redis/doctor.h"

#include "engine/redis/scripts.h"
#include "util/alloc.h"

#include <stdio.h>
#include <string.h>

#define TEXT_ROOM 320

static char *run(const struct redis_checkup *r, struct hfi_ask *ask, bool whole, hf_error *err);
static void judge(const struct redis_checkup *r, char *refused);
static bool is_spare(const char *words);

void hfi_doctor_rights(const struct redis_checkup *r, struct hfi_ask *ask)
{
    hf_error whole_err, sha_err, scan_err;
    char *whole = run(r, ask, true, &whole_err); /* first: then the server knows its sha */
    char *sha = run(r, ask, false, &sha_err);
    char *scan = hfi_ask(ask, (const char *[]){ "SCAN", "0", "COUNT", "1", NULL }, &scan_err);

    if (whole && sha) {
        judge(r, sha);
    } else {
        const hf_error *err = whole ? &sha_err : &whole_err;

        if (strncmp(err->text, "MOVED", 5) !=
            0) /* else another node of the cluster has those keys */
            hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "rights", "%s: %s",
                       whole ? "EVALSHA" : "EVAL", err->text);
    }
    if (!scan && scan_err.status == HF_DENIED)
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "rights",
                   "no SCAN: `ls` and `watch` cannot list names; ACL SETUSER ... +scan");
    hfi_free(whole);
    hfi_free(sha);
    hfi_free(scan);
}

/* The tag of these keys begins with %, which is never the case for a name: there it is written
 * %25. */
static void add_key(struct hfi_command *command, const struct redis_checkup *r, const char *end)
{
    char key[TEXT_ROOM];

    snprintf(key, sizeof key, "%s{%%doctor}%s", r->conf->prefix, end);
    hfi_command_add_text(command, key);
}

static char *run(const struct redis_checkup *r, struct hfi_ask *ask, bool whole, hf_error *err)
{
    struct hfi_command command;
    char channel[TEXT_ROOM], *refused;

    snprintf(channel, sizeof channel, "%sinbox:doctor", r->conf->prefix);
    hfi_command_init_script(&command, &hfi_script_rights, 3);
    command.whole = whole;
    add_key(&command, r, "");
    add_key(&command, r, ":w");
    add_key(&command, r, ":q");
    hfi_command_add_text(&command, channel);
    refused = hfi_ask_command(ask, &command, err);
    hfi_command_done(&command);
    return refused;
}

static void judge(const struct redis_checkup *r, char *refused)
{
    for (char *c = refused; *c; c++)
        if (*c == '\n')
            *c = ' ';
    if (!*refused)
        hfi_report(&r->report, HF_CHECK_LEVEL_OK, "rights", "all that locks need");
    else if (is_spare(refused))
        hfi_report(
            &r->report, HF_CHECK_LEVEL_WARNING, "rights",
            "refused: %s. Without PUBLISH waiters are woken by their own heartbeats only; without "
            "PUBSUB a waiter that died keeps the name idle for up to 10 seconds; without "
            "DEL neither cells can be deleted nor a queue whose name was lost; without GET, SET "
            "and INCRBY there are no counters. ACL SETUSER ... +COMMAND gives the right",
            refused);
    else
        hfi_report(
            &r->report, HF_CHECK_LEVEL_BAD, "rights",
            "this user may not do all that locks need; refused: %s (see holdfast-engines(7))",
            refused);
}

/* Can locks do without all of these commands? */
static bool is_spare(const char *words)
{
    static const char *const spare[] = { "DEL", "PUBLISH", "PUBSUB", "GET", "SET", "INCRBY" };

    while (*words) {
        size_t len = strcspn(words, " "), i = 0;

        while (i < sizeof spare / sizeof *spare &&
               (strlen(spare[i]) != len || memcmp(words, spare[i], len) != 0))
            i++;
        if (i == sizeof spare / sizeof *spare)
            return false;
        words += len + (words[len] == ' ');
    }
    return true;
}
