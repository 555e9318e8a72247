/* SPDX-License-Identifier: MIT */
/*
 * Counts votes: is an acquisition won, and with which token; if not, what blocks it. Then renewal
 * and release, which count without tokens. Pure: any thread, on its own ballot.
 *
 * Nodes are counted, not replies. A node has one entry in the ballot, which a repeated reply, a
 * message beside a reply and a heartbeat that finds a grant all update.
 *
 *   NONE --> ASKED --> GRANTED <--> QUEUED        (yield, hand-over)
 *              |           |
 *              +-----------+----> BUSY KIND FULL OTHER SILENT
 */
#include "engine/redlock/quorum.h"

#include <assert.h>
#include <string.h>

/* The votes of a ballot, counted. */
struct count {
    unsigned of[HFI_VOTE_SILENT + 1];
    unsigned best;   /* GRANTED with one and the same choice: most of them */
    uint64_t choice; /* ... this one */
};

static bool win(const struct hfi_ballot *ballot, uint64_t choice,
                struct hfi_ballot_outcome *outcome);
static void write_back(const struct hfi_ballot *ballot, uint64_t choice,
                       struct hfi_ballot_outcome *outcome);
static enum hfi_verdict wait_on(const struct hfi_ballot *ballot, const struct count *count);
static enum hfi_verdict refuse(const struct hfi_ballot *ballot, const struct count *count,
                               bool waits);

unsigned hfi_majority(unsigned n)
{
    return n / 2 + 1;
}

/* ---- what nodes say --------------------------------------------------------------------- */

void hfi_ballot_init(struct hfi_ballot *ballot, unsigned n)
{
    /* Hosts of the URL. */
    assert(n > 0 && n <= HFI_NODES_MAX);
    memset(ballot, 0, sizeof *ballot);
    ballot->n = n;
    ballot->need = hfi_majority(n);
}

static struct hfi_ballot_node *place(struct hfi_ballot *ballot, unsigned node)
{
    /* Our index. */
    assert(node < ballot->n);
    return &ballot->node[node];
}

void hfi_ballot_asked(struct hfi_ballot *ballot, unsigned node)
{
    *place(ballot, node) = (struct hfi_ballot_node){ .vote = HFI_VOTE_ASKED };
}

void hfi_ballot_granted(struct hfi_ballot *ballot, unsigned node, uint64_t counter, uint64_t choice,
                        int64_t sent_ms, int64_t held_ms)
{
    struct hfi_ballot_node *at = place(ballot, node);
    bool known = at->vote == HFI_VOTE_GRANTED && at->choice == choice &&
                 (counter == at->granted || counter == at->written);

    /* Each wire refuses 0, and less than one token for each that it asked for. */
    assert(counter > 0);
    /* Another counter means another grant: our record there had ended and was made again. What the
     * first one witnessed stays true, but others see the later one. */
    if (!known)
        *at = (struct hfi_ballot_node){ .vote = HFI_VOTE_GRANTED, .granted = counter };
    at->choice = choice;
    at->sent_ms = sent_ms;
    at->held_ms = held_ms;
}

void hfi_ballot_voted(struct hfi_ballot *ballot, unsigned node, enum hfi_vote vote)
{
    /* A constant of the caller. */
    assert(vote != HFI_VOTE_GRANTED);
    *place(ballot, node) = (struct hfi_ballot_node){ .vote = vote };
}

void hfi_ballot_writing(struct hfi_ballot *ballot, unsigned node, uint64_t token)
{
    struct hfi_ballot_node *at = place(ballot, node);

    if (at->vote == HFI_VOTE_GRANTED)
        at->asked = token;
}

void hfi_ballot_wrote(struct hfi_ballot *ballot, unsigned node, uint64_t counter)
{
    struct hfi_ballot_node *at = place(ballot, node);

    if (at->vote != HFI_VOTE_GRANTED)
        return; /* of a grant that we have given up since */
    if (counter == 0) {
        hfi_ballot_voted(ballot, node, HFI_VOTE_OTHER);
        return;
    }
    /* Never less than what was asked for: a smaller answer belongs to an earlier write-back, and
     * the later one is still under way. */
    if (counter >= at->asked)
        at->asked = 0;
    if (counter > at->written)
        at->written = counter;
}

/* ---- what follows -------------------------------------------------------------------------- */

static bool holds(const struct hfi_ballot *ballot, unsigned node, uint64_t choice)
{
    return ballot->node[node].vote == HFI_VOTE_GRANTED && ballot->node[node].choice == choice;
}

/* The counter in its record, as far as we know: a write-back only raises it. */
static uint64_t says(const struct hfi_ballot_node *at)
{
    return at->written > at->granted ? at->written : at->granted;
}

/* The node held for us when its counter was `token`, and its record still says so: renewals,
 * adoption and breaks count such records. A node with a higher write-back under way will have that
 * instead. */
static bool witnesses(const struct hfi_ballot_node *at, uint64_t token)
{
    return says(at) == token && at->asked <= token;
}

static uint32_t granted_nodes(const struct hfi_ballot *ballot)
{
    uint32_t nodes = 0;

    for (unsigned i = 0; i < ballot->n; i++)
        if (ballot->node[i].vote == HFI_VOTE_GRANTED)
            nodes |= UINT32_C(1) << i;
    return nodes;
}

static struct count count_votes(const struct hfi_ballot *ballot)
{
    struct count count = { .best = 0 };

    for (unsigned i = 0; i < ballot->n; i++) {
        uint64_t choice = ballot->node[i].choice;
        unsigned same = 0;

        count.of[ballot->node[i].vote]++;
        for (unsigned j = 0; j < ballot->n; j++)
            same += holds(ballot, j, choice);
        if (ballot->node[i].vote == HFI_VOTE_GRANTED && same > count.best) {
            count.best = same;
            count.choice = choice;
        }
    }
    return count;
}

struct hfi_ballot_outcome hfi_ballot_decide(const struct hfi_ballot *ballot, bool waits)
{
    struct count count = count_votes(ballot);
    unsigned may_grant = count.best + count.of[HFI_VOTE_ASKED];
    unsigned may_stay = count.of[HFI_VOTE_GRANTED] + count.of[HFI_VOTE_QUEUED];
    struct hfi_ballot_outcome outcome = { .verdict = HFI_BALLOT_OPEN };

    if (count.best >= ballot->need) {
        if (!win(ballot, count.choice, &outcome))
            write_back(ballot, count.choice, &outcome);
        return outcome;
    }
    if (may_grant >= ballot->need)
        return outcome;
    if (waits && may_stay + count.of[HFI_VOTE_ASKED] >= ballot->need)
        outcome.verdict = wait_on(ballot, &count);
    else
        outcome.verdict = refuse(ballot, &count, waits);
    if (outcome.verdict != HFI_BALLOT_OPEN)
        outcome.nodes = granted_nodes(ballot);
    return outcome;
}

/* Until when a majority holds: the need-th of the ends, the latest first. */
static void count_time(const struct hfi_ballot *ballot, uint64_t choice,
                       struct hfi_ballot_outcome *outcome)
{
    for (unsigned i = 0; i < ballot->n; i++) {
        const struct hfi_ballot_node *at = &ballot->node[i];
        int64_t end_ms = at->sent_ms + at->held_ms;
        unsigned later = 0, level = 0;

        if (!holds(ballot, i, choice))
            continue;
        for (unsigned j = 0; j < ballot->n; j++) {
            int64_t other_ms = ballot->node[j].sent_ms + ballot->node[j].held_ms;

            later += holds(ballot, j, choice) && other_ms > end_ms;
            level += holds(ballot, j, choice) && other_ms == end_ms;
        }
        if (later < ballot->need && later + level >= ballot->need) {
            outcome->sent_ms = at->sent_ms;
            outcome->held_ms = at->held_ms;
            return;
        }
    }
}

/* Is there a token that a majority witnesses? The largest: it is what we wrote back last. */
static bool win(const struct hfi_ballot *ballot, uint64_t choice,
                struct hfi_ballot_outcome *outcome)
{
    for (unsigned i = 0; i < ballot->n; i++) {
        uint64_t token = says(&ballot->node[i]);
        uint32_t nodes = 0;
        unsigned count = 0;

        if (!holds(ballot, i, choice) || token <= outcome->token)
            continue;
        for (unsigned j = 0; j < ballot->n; j++)
            if (holds(ballot, j, choice) && witnesses(&ballot->node[j], token)) {
                nodes |= UINT32_C(1) << j;
                count++;
            }
        if (count >= ballot->need) {
            outcome->verdict = HFI_BALLOT_WON;
            outcome->token = token;
            outcome->nodes = nodes;
        }
    }
    if (outcome->verdict != HFI_BALLOT_WON)
        return false;
    outcome->choice = choice;
    for (unsigned i = 0; i < ballot->n; i++)
        if (ballot->node[i].vote == HFI_VOTE_GRANTED && ballot->node[i].choice != choice)
            outcome->wrong |= UINT32_C(1) << i;
    count_time(ballot, choice, outcome);
    return true;
}

/* One token for all nodes that hold: the largest, since a counter cannot be lowered. If an answer
 * is larger still, it is the largest next time. */
static void write_back(const struct hfi_ballot *ballot, uint64_t choice,
                       struct hfi_ballot_outcome *outcome)
{
    uint64_t token = 0;

    for (unsigned i = 0; i < ballot->n; i++) {
        const struct hfi_ballot_node *at = &ballot->node[i];

        if (!holds(ballot, i, choice))
            continue;
        token = says(at) > token ? says(at) : token;
    }
    for (unsigned i = 0; i < ballot->n; i++)
        if (holds(ballot, i, choice) && says(&ballot->node[i]) != token &&
            ballot->node[i].asked != token)
            outcome->nodes |= UINT32_C(1) << i;
    if (outcome->nodes) {
        outcome->verdict = HFI_BALLOT_WRITE;
        outcome->token = token;
    }
}

/* Answers that are under way cannot win it, so we do not wait for them: two clients that hold a
 * part each would wait for each other. */
static enum hfi_verdict wait_on(const struct hfi_ballot *ballot, const struct count *count)
{
    unsigned granted = count->of[HFI_VOTE_GRANTED];

    if (granted + count->of[HFI_VOTE_QUEUED] < ballot->need)
        return HFI_BALLOT_OPEN;
    return granted ? HFI_BALLOT_SPLIT : HFI_BALLOT_WAITING;
}

static bool too_many(const struct hfi_ballot *ballot, unsigned nodes)
{
    return ballot->n - nodes < ballot->need;
}

/*
 * Why no majority can be won. First a reason that is enough alone, beginning with the one that
 * retrying helps least. A mixture is BUSY as soon as another client holds anywhere: it may hold at
 * silent nodes too. KIND needs a majority of its own, since one node may still have a holder that
 * the others have released: there it means BUSY. For an acquire that may wait, a place in a queue
 * is no refusal, and a mixture is temporary: FEW.
 */
static enum hfi_verdict refuse(const struct hfi_ballot *ballot, const struct count *count,
                               bool waits)
{
    const unsigned *of = count->of;
    unsigned held = of[HFI_VOTE_BUSY];

    if (!waits)
        held += of[HFI_VOTE_QUEUED] + of[HFI_VOTE_KIND] + of[HFI_VOTE_GRANTED] - count->best;
    if (too_many(ballot, of[HFI_VOTE_KIND]))
        return HFI_BALLOT_KIND;
    if (too_many(ballot, of[HFI_VOTE_FULL]))
        return HFI_BALLOT_FULL;
    if (too_many(ballot, of[HFI_VOTE_NONE] + of[HFI_VOTE_OTHER] + of[HFI_VOTE_SILENT]))
        return HFI_BALLOT_FEW;
    return held ? HFI_BALLOT_BUSY : HFI_BALLOT_FEW;
}

/* ---- renewal and release -------------------------------------------------------------------- */

enum hfi_tally hfi_tally(unsigned n, unsigned yes, unsigned no, unsigned open)
{
    unsigned need = hfi_majority(n);

    /* The leg of a node is closed before its answer is counted, once: round.c asks no node twice at a time. */
    assert(yes + no + open <= n);
    if (yes >= need)
        return HFI_TALLY_YES;
    if (n - no < need)
        return HFI_TALLY_NO;
    return open ? HFI_TALLY_OPEN : HFI_TALLY_UNKNOWN;
}

bool hfi_slots_read(const char *text, size_t len, uint32_t permits,
                    uint32_t ret_slots[HF_SLOTS_MAX])
{
    const char *end = text + len;

    if (permits == 0 || permits > HF_SLOTS_MAX)
        return false;
    for (uint32_t i = 0; i < permits; i++) {
        const char *from = text;
        uint32_t slot = 0;

        for (; text < end && *text >= '0' && *text <= '9' && slot < HF_CAPACITY_MAX; text++)
            slot = 10 * slot + (uint32_t)(*text - '0');
        if (text == from || slot >= HF_CAPACITY_MAX || (i > 0 && slot <= ret_slots[i - 1]))
            return false;
        ret_slots[i] = slot;
        if (i + 1 < permits && (text == end || *text++ != ','))
            return false;
    }
    return text == end;
}
