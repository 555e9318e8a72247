/* SPDX-License-Identifier: MIT */
/* What a run has shown, as JSON; see run.h. */
#include "run.h"

bool outcome_caught(const struct outcome *o)
{
    return o->verdict.exclusion > 0 || o->ledger_lost[LEDGER_GUARDED] > 0;
}

unsigned outcome_acquisitions(const struct outcome *o)
{
    unsigned all = 0;

    for (unsigned i = 0; i < LOCKS; i++)
        all += o->grants[i];
    return all;
}

static void print_failures(const struct outcome *o, FILE *out)
{
    bool first = true;

    fprintf(out, "\"failed\": {");
    for (unsigned i = 0; i < STATUSES; i++)
        if (o->failed[i]) {
            fprintf(out, "%s\"%s\": %u", first ? "" : ", ", hf_status_name((hf_status)i),
                    o->failed[i]);
            first = false;
        }
    fprintf(out, "}");
}

/* Without tokens nothing can be fenced, and without cells there is nothing to update: null. */
static void print_ledger(const struct outcome *o, FILE *out, const char *name, unsigned ledger,
                         bool has)
{
    if (has)
        fprintf(out, "\"%s\": {\"done\": %u, \"refused\": %u, \"lost\": %u}, ", name,
                o->ledger_done[ledger], o->ledger_refused[ledger], o->ledger_lost[ledger]);
    else
        fprintf(out, "\"%s\": null, ", name);
}

void outcome_print(const struct outcome *o, FILE *out)
{
    static const char *const strengths[] = { "none", "while-durable", "strict" };
    bool tokens = o->tokens != HF_TOKEN_STRENGTH_NONE, cells = o->caps & HF_CAP_CELLS;

    fprintf(out, "{\"client\": \"%s\", \"began\": %s, ", wrong_names[o->wrong],
            o->began ? "true" : "false");
    fprintf(out, "\"acquisitions\": %u, \"mutex\": %u, \"read_write\": %u, \"semaphore\": %u, ",
            outcome_acquisitions(o), o->grants[LOCK_MUTEX] + o->grants[LOCK_BUSY],
            o->grants[LOCK_RW], o->grants[LOCK_SEMAPHORE]);
    fprintf(out, "\"strikes\": %u, \"double_holds\": %u, ", o->strikes, o->verdict.exclusion);
    print_ledger(o, out, "plain", LEDGER_PLAIN, true);
    print_ledger(o, out, "fenced", LEDGER_GUARDED, tokens);
    print_ledger(o, out, "counter", LEDGER_COUNTER, cells);
    print_ledger(o, out, "cell", LEDGER_CELL, cells);
    fprintf(out, "\"tokens\": \"%s\", \"tokens_back\": %u, \"tokens_compared\": %u, ",
            strengths[o->tokens <= HF_TOKEN_STRENGTH_STRICT ? o->tokens : 0], o->verdict.tokens,
            o->verdict.compared);
    fprintf(out, "\"ttl_ms\": %lld, \"lost_told\": %u, \"lost_late_ms\": %lld, ",
            (long long)o->lease_ms, o->losses, (long long)o->late_ms);
    fprintf(out, "\"hung\": %u, \"died\": %u, \"recover_ms\": %lld, \"recover_max_ms\": %lld, ",
            o->hung, o->died, (long long)o->recover_ms, (long long)o->recover_max_ms);
    print_failures(o, out);
    fprintf(out, "}");
}
