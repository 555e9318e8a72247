/* SPDX-License-Identifier: MIT */
/*
 * judge [-t] [-c FINAL] FILE...: what the workers of all languages have printed, a file for each of them, before the history
 * checker of test/torture. -t: the leases have a ttl. -c: the number that the guarded counter had in the end.
 *
 * Of the counter: each number up to the last one was written by one worker that did not fail, or by one of which it is not known
 * (killed, or no answer); none was written twice; and a larger number has a larger token.
 */
#include "checker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUES_MAX 1000000

enum { MUTEX, SEMAPHORE, COUNTER, NAMES };
static const char *const names[NAMES] = { "mutex", "semaphore", "counter" };

struct value {
    uint64_t token; /* under which it was written for certain; 0: not for certain */
    bool maybe;     /* somebody may have written it */
};

struct judge {
    struct history *history;
    struct value *values; /* [VALUES_MAX] */
    bool ttl;
    unsigned bad;
    const char *path;
    unsigned line;
};

static void refuse(const struct judge *j, const char *what)
{
    fprintf(stderr, "judge: %s:%u: %s\n", j->path, j->line, what);
    exit(2);
}

static void complain(struct judge *j, const char *what, uint64_t value)
{
    printf("counter: %s: %" PRIu64 " (%s:%u)\n", what, value, j->path, j->line);
    j->bad++;
}

static uint64_t number_in(const struct judge *j, const char *word)
{
    char *end;
    uint64_t value = strtoull(word, &end, 10);

    if (end == word || *end)
        refuse(j, "a number is missing");
    return value;
}

static hf_status status_in(const struct judge *j, const char *word)
{
#define IS(name, number, text)    \
    if (strcmp(word, #name) == 0) \
        return HF_##name;
    HF_STATUS_MAP(IS)
#undef IS
    refuse(j, "no such status");
    return HF_INTERNAL;
}

/* ---- the counter ------------------------------------------------------------------------------ */

static void read_value(struct judge *j, const char *verb, uint64_t value, uint64_t token)
{
    struct value *v;

    if (value == 0 || value >= VALUES_MAX)
        refuse(j, "no such value");
    v = &j->values[value];
    if (strcmp(verb, "adding") == 0 || strcmp(verb, "unsure") == 0) {
        v->maybe = true;
    } else if (strcmp(verb, "added") == 0) {
        if (v->token)
            complain(j, "written twice", value);
        v->token = token;
    } else if (strcmp(verb, "fenced") != 0) {
        refuse(j, "no such event");
    }
}

static void judge_counter(struct judge *j, uint64_t last)
{
    uint64_t token = 0, certain = 0;

    j->path = "all";
    for (uint64_t i = 1; i < VALUES_MAX; i++) {
        const struct value *v = &j->values[i];

        if (i > last && v->token)
            complain(j, "written, but lost in the end", i);
        if (i <= last && !v->token && !v->maybe)
            complain(j, "written by nobody", i);
        if (v->token && v->token <= token)
            complain(j, "a token that is not larger", i);
        if (v->token) {
            token = v->token;
            certain++;
        }
    }
    printf("counter: %" PRIu64 ", of which %" PRIu64 " were answered\n", last, certain);
}

/* ---- lines ---------------------------------------------------------------------------------- */

static uint8_t name_in(const struct judge *j, const char *word)
{
    for (uint8_t i = 0; i < NAMES; i++)
        if (strcmp(word, names[i]) == 0)
            return i;
    refuse(j, "no such lock");
    return 0;
}

static void read_event(struct judge *j, uint32_t lane, int64_t at_ns, char *const word[4])
{
    struct event e = { .at_ns = at_ns, .ttl = j->ttl };
    const char *verb = word[0];

    if (strcmp(verb, "dead") == 0) {
        e.kind = EV_DEAD;
    } else if (strncmp(verb, "add", 3) == 0 || strcmp(verb, "fenced") == 0 ||
               strcmp(verb, "unsure") == 0) {
        read_value(j, verb, number_in(j, word[1]), number_in(j, word[2]));
        return;
    } else {
        e.number = (uint32_t)number_in(j, word[1]);
        if (strcmp(verb, "ask") == 0) {
            e.kind = EV_ASK;
            e.name = name_in(j, word[2]);
            e.lock = e.name == SEMAPHORE ? HF_KIND_SEMAPHORE : HF_KIND_MUTEX;
            e.permits = (uint32_t)number_in(j, word[3]);
            atomic_store(&j->history->lane[lane].number, e.number);
        } else if (strcmp(verb, "got") == 0) {
            e.kind = EV_GOT;
            e.token = number_in(j, word[2]);
        } else if (strcmp(verb, "not") == 0 || strcmp(verb, "let") == 0) {
            e.kind = *verb == 'n' ? EV_NOT : EV_LET;
            e.status = (uint8_t)status_in(j, word[2]);
        } else if (strcmp(verb, "still") == 0) {
            e.kind = EV_STILL;
        } else if (strcmp(verb, "lost") == 0) {
            e.kind = EV_LOST;
        } else if (strcmp(verb, "letting") == 0) {
            e.kind = EV_LETTING;
        } else {
            refuse(j, "no such event");
        }
    }
    if (!history_add(j->history, lane, e))
        refuse(j, "too many events");
}

static void read_file(struct judge *j, uint32_t lane, const char *path)
{
    FILE *file = fopen(path, "r");
    char text[256];

    j->path = path;
    j->line = 0;
    if (!file)
        refuse(j, "it cannot be read");
    while (fgets(text, sizeof text, file)) {
        char none[1] = "", *word[5] = { none, none, none, none, none }, *rest = text, *next;
        int count = 0;

        j->line++;
        if (!strchr(text, '\n'))
            refuse(j, "half a line");
        while (count < 5 && (next = strtok_r(rest, " \n", &rest)))
            word[count++] = next;
        if (count < 2)
            refuse(j, "not an event");
        read_event(j, lane, (int64_t)number_in(j, word[0]), word + 1);
    }
    fclose(file);
}

int main(int argc, char **argv)
{
    struct judge j = { .history = history_new(), .values = calloc(VALUES_MAX, sizeof *j.values) };
    struct verdict verdict;
    uint64_t last = 0;
    int at = 1;

    if (!j.history || !j.values)
        return 2;
    for (; at < argc && argv[at][0] == '-'; at++) {
        if (strcmp(argv[at], "-t") == 0)
            j.ttl = true;
        else if (strcmp(argv[at], "-c") == 0 && at + 1 < argc)
            last = strtoull(argv[++at], NULL, 10);
        else
            break;
    }
    if (at >= argc || argc - at > LANES_MAX) {
        fprintf(stderr, "usage: judge [-t] [-c FINAL] FILE... (at most %d)\n", LANES_MAX);
        return 64;
    }
    j.history->lanes = (uint32_t)(argc - at);
    j.history->capacities[MUTEX] = j.history->capacities[COUNTER] = 1;
    j.history->capacities[SEMAPHORE] = 3;
    for (uint32_t lane = 0; at < argc; at++, lane++)
        read_file(&j, lane, argv[at]);
    judge_counter(&j, last);
    verdict = check_history(j.history, stdout);
    printf("%u leases, %u pairs compared, %u deaths: ", verdict.leases, verdict.compared,
           verdict.deaths);
    j.bad += violations(&verdict);
    printf(j.bad ? "%u violations\n" : "no violation\n", j.bad);
    free(j.values);
    return j.bad ? 1 : 0;
}
