/* SPDX-License-Identifier: MIT */
/*
 * Epochs, and the next step towards a complete cluster. Pure: any thread. Stateless: a healer knows
 * only what the nodes report, so any other healer can continue for one that died.
 *
 * Why tokens survive it. An epoch whose id is the marker M was made after the node that carries M had
 * lost its data, and install wants a majority S of all nodes in it, each intact. Take an acquisition that
 * was won at a majority W in an earlier epoch, with the lost node in W. W and S share an intact node;
 * what happened there for W was before it was sealed, so its counter, read afterwards, is at least the
 * token, and the floor is more. So the node comes back knowing (a bound of) all that it forgot.
 *
 * Why a node that was installed with an epoch that is not the highest any more may be lifted. What was
 * won in the epochs between was won at majorities without it, for it was empty; every later majority shares
 * with each of those a node that remembers, or one that was itself healed by the argument above.
 *
 * Both need that a node's epoch only rises (each step below goes to a higher one, and nodes compare and
 * set), and that clients vote only in an epoch that they saw a majority in (hfi_epoch_current): a node that
 * was sealed alone and then lost its data takes the knowledge of that epoch with it.
 */
#include "engine/redlock/quorum.h"

#include <assert.h>
#include <string.h>

/* A summary of all views. */
struct whole {
    unsigned ready, empty, unknown;
    const struct hfi_node_view *highest; /* of the READY: the highest epoch */
    unsigned highest_count;              /* nodes in that epoch */
    int64_t max_ttl_ms;
};

static bool stuck(const struct hfi_node_view *nodes, unsigned n, struct whole *whole,
                  struct hfi_heal *heal);
static const struct hfi_node_view *first_ripe(const struct hfi_node_view *nodes, unsigned n,
                                              int64_t max_ttl_ms);
static void below(const struct hfi_node_view *nodes, unsigned n, const struct hfi_epoch *epoch,
                  enum hfi_heal_step step, struct hfi_heal *heal);
static void install(const struct hfi_node_view *nodes, unsigned n, unsigned empty,
                    const struct whole *whole, struct hfi_heal *heal);
static bool unfinished_start(const struct hfi_node_view *nodes, unsigned n,
                             const struct whole *whole, struct hfi_heal *heal);
static void mark(const struct hfi_node_view *nodes, unsigned n, struct hfi_heal *heal);
static void age(const struct hfi_node_view *nodes, unsigned n, const struct whole *whole,
                struct hfi_heal *heal);

int hfi_epoch_compare(const struct hfi_epoch *a, const struct hfi_epoch *b)
{
    int ids;

    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    ids = memcmp(a->id, b->id, HFI_EPOCH_ID);
    return (ids > 0) - (ids < 0);
}

static unsigned count_in(const struct hfi_node_view *nodes, unsigned n,
                         const struct hfi_epoch *epoch)
{
    unsigned count = 0;

    for (unsigned i = 0; i < n; i++)
        count += nodes[i].state == HFI_NODE_READY && hfi_epoch_compare(&nodes[i].epoch, epoch) == 0;
    return count;
}

bool hfi_epoch_current(const struct hfi_node_view *nodes, unsigned n, struct hfi_epoch *ret_epoch)
{
    for (unsigned i = 0; i < n; i++)
        if (nodes[i].state == HFI_NODE_READY &&
            count_in(nodes, n, &nodes[i].epoch) >= hfi_majority(n)) {
            *ret_epoch = nodes[i].epoch;
            return true;
        }
    return false;
}

/*
 * The order is seal, lift, mark, install, age: steps that give clients a majority in one epoch come
 * before those that add one more node. A lift that a seal is about to make unnecessary is left out,
 * since each change of epoch makes clients start over. Nodes that lag behind are lifted before an
 * install, because an install may fail again and again, and they would have no vote for all that
 * time.
 */
struct hfi_heal hfi_heal_next(const struct hfi_node_view *nodes, unsigned n)
{
    struct hfi_heal heal = { .step = HFI_HEAL_NOTHING };
    const struct hfi_node_view *ripe;
    struct hfi_epoch target;
    struct whole whole = { .highest = NULL };

    /* Hosts of the URL; a node's own number is only compared. */
    assert(n > 0 && n <= HFI_NODES_MAX);
    if (stuck(nodes, n, &whole, &heal))
        return heal;
    assert(whole.highest); /* a majority is READY */
    target = whole.highest->epoch;
    ripe = first_ripe(nodes, n, whole.max_ttl_ms);
    if (ripe && memcmp(target.id, ripe->marker, HFI_EPOCH_ID) != 0) {
        target.number++;
        memcpy(target.id, ripe->marker, HFI_EPOCH_ID);
        below(nodes, n, &target, HFI_HEAL_SEAL, &heal);
    } else if (ripe && whole.highest_count < hfi_majority(n))
        below(nodes, n, &target, HFI_HEAL_SEAL, &heal); /* half sealed: go on with that */
    else
        below(nodes, n, &target, HFI_HEAL_LIFT, &heal);
    if (heal.step == HFI_HEAL_NOTHING)
        mark(nodes, n, &heal);
    if (heal.step == HFI_HEAL_NOTHING && ripe)
        install(nodes, n, (unsigned)(ripe - nodes), &whole, &heal);
    if (heal.step == HFI_HEAL_NOTHING)
        age(nodes, n, &whole, &heal);
    return heal;
}

static struct hfi_heal stuck_for(enum hfi_stuck why)
{
    return (struct hfi_heal){ .step = HFI_HEAL_STUCK, .why = why };
}

static void look(const struct hfi_node_view *nodes, unsigned n, struct whole *whole)
{
    for (unsigned i = 0; i < n; i++) {
        const struct hfi_node_view *at = &nodes[i];

        whole->ready += at->state == HFI_NODE_READY;
        whole->empty += at->state == HFI_NODE_EMPTY;
        whole->unknown += at->state == HFI_NODE_UNKNOWN;
        if (at->state != HFI_NODE_READY)
            continue;
        if (at->max_ttl_ms > whole->max_ttl_ms)
            whole->max_ttl_ms = at->max_ttl_ms;
        if (!whole->highest || hfi_epoch_compare(&at->epoch, &whole->highest->epoch) > 0)
            whole->highest = at;
    }
    if (whole->highest)
        whole->highest_count = count_in(nodes, n, &whole->highest->epoch);
}

/* Is there nothing to plan, because there is no cluster yet (or only the beginning of one), or
 * because a person must decide? */
static bool stuck(const struct hfi_node_view *nodes, unsigned n, struct whole *whole,
                  struct hfi_heal *heal)
{
    look(nodes, n, whole);
    for (unsigned i = 0; i < n; i++) {
        if (nodes[i].state != HFI_NODE_READY)
            continue;
        if (memcmp(nodes[i].cluster, whole->highest->cluster, HFI_EPOCH_ID) != 0) {
            *heal = stuck_for(HFI_STUCK_CLUSTERS);
            return true;
        }
        if (nodes[i].n != n) {
            *heal = stuck_for(HFI_STUCK_COUNT);
            return true;
        }
    }
    if (whole->empty == n) {
        heal->step = HFI_HEAL_START;
        heal->nodes = (UINT32_C(1) << n) - 1;
        return true;
    }
    if (whole->ready >= hfi_majority(n))
        return false;
    if (unfinished_start(nodes, n, whole, heal))
        return true;
    /* If no node is intact, the nodes that do not answer decide whether this is a start. */
    if (whole->ready == 0 || whole->ready + whole->unknown >= hfi_majority(n))
        *heal = stuck_for(HFI_STUCK_FEW);
    else
        *heal = stuck_for(HFI_STUCK_LOST);
    return true;
}

/*
 * One marker for each node, all of one start. Not one for all: a late request of a start that failed would put the
 * marker on a node which has been in the cluster meanwhile and lost its data, while another node was healed
 * by the same marker: then it would look as if the epoch had been sealed after that loss.
 */
void hfi_start_marker(const unsigned char *start_id, unsigned node, unsigned char *ret_marker)
{
    /* Our index. */
    assert(node < HFI_NODES_MAX);
    memcpy(ret_marker, start_id, HFI_EPOCH_ID);
    ret_marker[HFI_EPOCH_ID - 1] = (unsigned char)(node + 1);
}

void hfi_start_epoch(const unsigned char *start_id, struct hfi_epoch *ret_epoch)
{
    ret_epoch->number = 1;
    memcpy(ret_epoch->id, start_id, HFI_EPOCH_ID);
    ret_epoch->id[HFI_EPOCH_ID - 1] = 0;
}

/*
 * A client that starts a cluster saw all n nodes empty with its markers before it installed the
 * first, and may have died after that. So all its markers had arrived, and none is under way any
 * more: a node that still carries its marker has not voted since. It has forgotten nothing, and
 * needs neither age nor seal.
 */
static bool unfinished_start(const struct hfi_node_view *nodes, unsigned n,
                             const struct whole *whole, struct hfi_heal *heal)
{
    if (!whole->highest || whole->highest->epoch.number != 1)
        return false;
    for (unsigned i = 0; i < n; i++)
        if (nodes[i].state == HFI_NODE_EMPTY && nodes[i].marked &&
            memcmp(nodes[i].marker, whole->highest->epoch.id, HFI_EPOCH_ID - 1) == 0) {
            install(nodes, n, i, whole, heal);
            return true;
        }
    return false;
}

/* An empty node that has been empty for so long that every lease it granted and forgot has
 * ended. */
static const struct hfi_node_view *first_ripe(const struct hfi_node_view *nodes, unsigned n,
                                              int64_t max_ttl_ms)
{
    for (unsigned i = 0; i < n; i++)
        if (nodes[i].state == HFI_NODE_EMPTY && nodes[i].marked && nodes[i].age_ms >= max_ttl_ms)
            return &nodes[i];
    return NULL;
}

static void below(const struct hfi_node_view *nodes, unsigned n, const struct hfi_epoch *epoch,
                  enum hfi_heal_step step, struct hfi_heal *heal)
{
    uint32_t lower = 0;

    for (unsigned i = 0; i < n; i++)
        if (nodes[i].state == HFI_NODE_READY && hfi_epoch_compare(&nodes[i].epoch, epoch) < 0)
            lower |= UINT32_C(1) << i;
    if (lower)
        *heal = (struct hfi_heal){ .step = step, .nodes = lower, .epoch = *epoch };
}

/* All that answer are in the epoch with its marker by now, and they are a majority of all n. */
static void install(const struct hfi_node_view *nodes, unsigned n, unsigned empty,
                    const struct whole *whole, struct hfi_heal *heal)
{
    uint64_t top = 0;

    for (unsigned i = 0; i < n; i++)
        if (nodes[i].state == HFI_NODE_READY && nodes[i].top > top)
            top = nodes[i].top;
    *heal = (struct hfi_heal){ .step = HFI_HEAL_INSTALL,
                               .nodes = UINT32_C(1) << empty,
                               .epoch = whole->highest->epoch,
                               .floor = top + 1 };
}

static void mark(const struct hfi_node_view *nodes, unsigned n, struct hfi_heal *heal)
{
    for (unsigned i = 0; i < n; i++)
        if (nodes[i].state == HFI_NODE_EMPTY && !nodes[i].marked)
            heal->nodes |= UINT32_C(1) << i;
    if (heal->nodes)
        heal->step = HFI_HEAL_MARK;
}

static void age(const struct hfi_node_view *nodes, unsigned n, const struct whole *whole,
                struct hfi_heal *heal)
{
    for (unsigned i = 0; i < n; i++) {
        int64_t left_ms = whole->max_ttl_ms - nodes[i].age_ms;

        if (nodes[i].state != HFI_NODE_EMPTY)
            continue;
        heal->nodes |= UINT32_C(1) << i;
        if (heal->step != HFI_HEAL_AGE || left_ms < heal->wait_ms)
            heal->wait_ms = left_ms;
        heal->step = HFI_HEAL_AGE;
    }
}
