/* SPDX-License-Identifier: MIT */
/* Looking: every holder and every waiter, with what people want to know about them. */
#include "peer.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static hf_view *look(hf_store *store, const char *name, uint64_t flags)
{
    hf_view *view = NULL;

    EXPECT(HF_OK,
           hf_store_inspect(store, name, name ? strlen(name) : 0, flags, &view, &contract_error));
    CHECK(view != NULL);
    return view;
}

static void one_holder(void **state)
{
    hf_acquire_request request = mutex_request("held");
    const hf_entry *entry;
    const hf_holder *holder;
    hf_store *store;
    hf_lease *lease;
    hf_view *view;

    (void)state;
    NEEDS(HF_CAP_INSPECT);
    store = open_store();
    view = look(store, "held", 0);
    CHECK(hf_view_count(view) == 0);
    hf_free(view);

    request.label = "the nightly backup";
    lease = take(store, &request);
    nap_ms(30);
    view = look(store, "held", 0);
    CHECK(hf_view_count(view) == 1);
    entry = hf_view_entry(view, 0);
    CHECK(entry->name_len == 4 && memcmp(entry->name, "held", 4) == 0);
    CHECK(entry->kind == HF_KIND_MUTEX && entry->capacity == 1 && entry->taken == 1);
    CHECK(entry->closed_ms == 0);
    CHECK(entry->holder_count == 1 && entry->waiter_count == 0);
    holder = hf_entry_holder(entry, 0);
    CHECK(holder->token == hf_lease_token(lease));
    CHECK(holder->permits == 1);
    CHECK(holder->detached == 0);
    CHECK(holder->age_ms >= 30 || holder->age_ms == 0); /* 0: the store does not know ages */
    CHECK(holder->pid == getpid() || holder->pid == 0);
    CHECK(strcmp(holder->label, "the nightly backup") == 0);
    if (contract_info.default_ttl_ms)
        CHECK(holder->ttl_ms > 0 && holder->ttl_ms <= contract_info.default_ttl_ms);
    else
        CHECK(holder->ttl_ms == -1);
    hf_free(view);
    give(lease);
    view = look(store, "held", 0);
    CHECK(hf_view_count(view) == 0);
    hf_free(view);
    close_store(store);
}

static void labels(void **state)
{
    char label[300];
    hf_acquire_request request = mutex_request("label");
    hf_store *store;
    hf_lease *lease;
    hf_view *view;

    (void)state;
    NEEDS(HF_CAP_INSPECT);
    store = open_store(); /* its own label is "contract" */
    lease = take(store, &request);
    view = look(store, "label", 0);
    CHECK(strcmp(hf_entry_holder(hf_view_entry(view, 0), 0)->label, "contract") == 0);
    hf_free(view);
    give(lease);

    memset(label, 'x', sizeof label);
    label[sizeof label - 1] = 0;
    request.label = label;
    lease = take(store, &request);
    memset(label, 'y', sizeof label - 1); /* it was copied */
    view = look(store, "label", 0);
    CHECK(strlen(hf_entry_holder(hf_view_entry(view, 0), 0)->label) == HF_LABEL_MAX);
    CHECK(hf_entry_holder(hf_view_entry(view, 0), 0)->label[0] == 'x');
    hf_free(view);
    give(lease);

    request.label = "";
    lease = take(store, &request);
    view = look(store, "label", 0);
    CHECK(hf_entry_holder(hf_view_entry(view, 0), 0)->label != NULL);
    hf_free(view);
    give(lease);
    close_store(store);
}

static void default_label_names_us(void **state)
{
    hf_acquire_request request = mutex_request("label");
    char pid[32];
    hf_store *store = NULL;
    hf_lease *lease;
    hf_view *view;

    (void)state;
    NEEDS(HF_CAP_INSPECT);
    EXPECT(HF_OK, hf_open(contract_url(), NULL, &store, &contract_error));
    lease = take(store, &request);
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    view = look(store, "label", 0);
    CHECK(strstr(hf_entry_holder(hf_view_entry(view, 0), 0)->label, pid) != NULL);
    hf_free(view);
    give(lease);
    close_store(store);
}

static void queue_peer(hf_store *store, struct peer *peer, const hf_acquire_request *request,
                       size_t count)
{
    peer_begin(peer, 0, request);
    AWAIT(count_waiters(store, request->name) == count);
}

static void waiters_in_order(void **state)
{
    hf_acquire_request request = mutex_request("queue");
    struct peer peers[3];
    hf_store *store;
    hf_lease *lease;
    hf_view *view;

    (void)state;
    NEEDS(HF_CAP_INSPECT | HF_CAP_WAITERS | HF_CAP_FIFO);
    store = open_store();
    lease = take(store, &request);
    for (int i = 0; i < 3; i++) {
        char label[16];

        peer_start(&peers[i]);
        snprintf(label, sizeof label, "waiter-%d", i + 1);
        request.wait_ms = LIMIT_MS;
        request.label = label;
        queue_peer(store, &peers[i], &request, (size_t)i + 1);
    }
    nap_ms(20);
    view = look(store, "queue", 0);
    CHECK(hf_view_waiters_tracked(view));
    CHECK(hf_view_entry(view, 0)->waiter_count == 3);
    for (uint32_t i = 0; i < 3; i++) {
        const hf_waiter *waiter = hf_entry_waiter(hf_view_entry(view, 0), i);
        char label[16];

        snprintf(label, sizeof label, "waiter-%u", i + 1);
        CHECK(strcmp(waiter->label, label) == 0);
        CHECK(waiter->position == i + 1);
        CHECK(waiter->permits == 1);
        CHECK(waiter->kind == HF_KIND_MUTEX);
        CHECK(waiter->age_ms >= 20);
        CHECK(i == 0 || waiter->age_ms <= hf_entry_waiter(hf_view_entry(view, 0), i - 1)->age_ms);
        if (contract_processes && waiter->pid)
            CHECK(waiter->pid == peers[i].pid);
    }
    hf_free(view);
    give(lease);
    for (int i = 0; i < 3; i++)
        peer_stop(&peers[i]);
    close_store(store);
}

static void readers_and_writers(void **state)
{
    hf_acquire_request reader = mutex_request("rw"), writer;
    struct peer peer;
    hf_lease *leases[2];
    hf_store *store;
    hf_view *view;

    (void)state;
    NEEDS(HF_CAP_INSPECT | HF_CAP_WAITERS | HF_CAP_SHARED | HF_CAP_FIFO);
    store = open_store();
    peer_start(&peer);
    reader.kind = HF_KIND_SHARED;
    writer = reader;
    writer.kind = HF_KIND_EXCLUSIVE;
    leases[0] = take(store, &reader);
    leases[1] = take(store, &reader);
    writer.wait_ms = LIMIT_MS;
    queue_peer(store, &peer, &writer, 1);
    view = look(store, "rw", 0);
    CHECK(hf_view_entry(view, 0)->kind == HF_KIND_SHARED);
    CHECK(hf_view_entry(view, 0)->taken == 2);
    CHECK(hf_view_entry(view, 0)->holder_count == 2);
    CHECK(hf_entry_holder(hf_view_entry(view, 0), 0)->permits == 1);
    CHECK(hf_entry_waiter(hf_view_entry(view, 0), 0)->kind == HF_KIND_EXCLUSIVE);
    CHECK(hf_entry_waiter(hf_view_entry(view, 0), 0)->permits == hf_view_entry(view, 0)->capacity);
    hf_free(view);

    give(leases[0]);
    give(leases[1]);
    EXPECT(HF_OK, peer_join(&peer, 0, NULL));
    view = look(store, "rw", 0);
    CHECK(hf_view_entry(view, 0)->taken == hf_view_entry(view, 0)->capacity);
    CHECK(hf_view_entry(view, 0)->holder_count == 1);
    hf_free(view);
    peer_stop(&peer);
    close_store(store);
}

static void semaphore_holders(void **state)
{
    hf_acquire_request request = mutex_request("slots");
    hf_lease *leases[3];
    hf_store *store;
    hf_view *view;
    uint32_t permits = 0;

    (void)state;
    NEEDS(HF_CAP_INSPECT | HF_CAP_SEMAPHORE);
    store = open_store();
    request.kind = HF_KIND_SEMAPHORE;
    request.capacity = 10;
    for (uint32_t i = 0; i < 3; i++) {
        request.permits = i + 1;
        leases[i] = take(store, &request);
    }
    view = look(store, "slots", 0);
    CHECK(hf_view_entry(view, 0)->kind == HF_KIND_SEMAPHORE);
    CHECK(hf_view_entry(view, 0)->capacity == 10 && hf_view_entry(view, 0)->taken == 6);
    CHECK(hf_view_entry(view, 0)->holder_count == 3);
    for (size_t i = 0; i < 3; i++)
        permits += hf_entry_holder(hf_view_entry(view, 0), i)->permits;
    CHECK(permits == 6);
    hf_free(view);
    for (int i = 0; i < 3; i++)
        give(leases[i]);
    close_store(store);
}

/* How many of the names a pattern shows; also that they come sorted. */
static size_t count_matches(hf_store *store, const char *pattern)
{
    hf_view *view = look(store, pattern, HF_INSPECT_FLAG_PATTERN);
    size_t count = hf_view_count(view);

    for (size_t i = 1; i < count; i++) {
        const hf_entry *a = hf_view_entry(view, i - 1), *b = hf_view_entry(view, i);
        size_t len = a->name_len < b->name_len ? a->name_len : b->name_len;
        int order = memcmp(a->name, b->name, len);

        CHECK(order < 0 || (order == 0 && a->name_len < b->name_len));
    }
    hf_free(view);
    return count;
}

static void globs(void **state)
{
    static const char *const names[] = { "b",   "a",   "job/nightly", "job/hourly",
                                         "job", "j*b", "[x]",         "Job" };
    hf_lease *leases[8];
    hf_store *store;
    hf_view *view;

    (void)state;
    NEEDS(HF_CAP_INSPECT);
    store = open_store();
    for (int i = 0; i < 8; i++)
        leases[i] = take(store, &(hf_acquire_request){ .size = sizeof(hf_acquire_request),
                                                       .name = names[i],
                                                       .name_len = HF_CSTRING });
    CHECK(count_matches(store, NULL) == 8);
    CHECK(count_matches(store, "*") == 8);
    CHECK(count_matches(store, "job*") == 3);
    CHECK(count_matches(store, "job/*") == 2);
    CHECK(count_matches(store, "?") == 2);
    CHECK(count_matches(store, "[ab]") == 2);
    CHECK(count_matches(store, "[Jj]ob") == 2);
    CHECK(count_matches(store, "j\\*b") == 1);
    CHECK(count_matches(store, "j*b") == 2);
    CHECK(count_matches(store, "\\[x\\]") == 1);
    CHECK(count_matches(store, "*ly") == 2);
    CHECK(count_matches(store, "nothing*") == 0);
    view = look(store, "j*b", 0); /* without the flag a pattern is a name */
    CHECK(hf_view_count(view) == 1 && hf_view_entry(view, 0)->name_len == 3);
    hf_free(view);
    for (int i = 0; i < 8; i++)
        give(leases[i]);
    CHECK(count_matches(store, NULL) == 0);
    close_store(store);
}

#define MANY 500

static void many_names(void **state)
{
    hf_lease *leases[MANY];
    hf_store *store;
    char name[32];

    (void)state;
    NEEDS(HF_CAP_INSPECT);
    store = open_store();
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "many-%d", i * 7919 % MANY);
        leases[i] = take(store, &(hf_acquire_request){ .size = sizeof(hf_acquire_request),
                                                       .name = name,
                                                       .name_len = HF_CSTRING });
    }
    CHECK(count_matches(store, NULL) == MANY);
    CHECK(count_matches(store, "many-1??") == 100);
    for (int i = 0; i < MANY; i++)
        give(leases[i]);
    CHECK(count_matches(store, NULL) == 0);
    close_store(store);
}

static void seen_by_peers(void **state)
{
    hf_acquire_request request = mutex_request("held");
    struct peer peer;
    hf_store *store;
    hf_view *view;

    (void)state;
    NEEDS(HF_CAP_INSPECT);
    store = open_store();
    peer_start(&peer);
    request.label = "from-afar";
    EXPECT(HF_OK, peer_acquire(&peer, 0, &request));
    view = look(store, "held", 0);
    CHECK(hf_view_count(view) == 1 && hf_view_entry(view, 0)->holder_count == 1);
    CHECK(strcmp(hf_entry_holder(hf_view_entry(view, 0), 0)->label, "from-afar") == 0);
    if (contract_processes && hf_entry_holder(hf_view_entry(view, 0), 0)->pid)
        CHECK(hf_entry_holder(hf_view_entry(view, 0), 0)->pid == peer.pid);
    hf_free(view);
    peer_stop(&peer);
    CHECK(count_holders(store, "held") == 0);
    close_store(store);
}

int contract_inspect(void)
{
    const struct CMUnitTest cases[] = {
        CASE(one_holder),
        CASE(labels),
        CASE(default_label_names_us),
        CASE(waiters_in_order),
        CASE(readers_and_writers),
        CASE(semaphore_holders),
        CASE(globs),
        CASE(many_names),
        CASE(seen_by_peers),
    };

    return cmocka_run_group_tests_name("inspect", cases, NULL, NULL);
}
