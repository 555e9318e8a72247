/* SPDX-License-Identifier: MIT */
/* The members' links, and what is due: the times of everything, as one source of the reactor. */
#include "engine/etcd/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

static const struct hfi_source_calls work_calls;

/* ---- open and close ------------------------------------------------------------------------------- */

hf_status etcd_drive_open(struct etcd_store *store, hf_error *err)
{
    const struct hfi_conf *url = &store->conf->url;

    hfi_list_init(&store->claims);
    hfi_list_init(&store->waits);
    hfi_list_init(&store->changes);
    hfi_list_init(&store->wants);
    for (size_t i = 0; i < ETCD_WATCH_LISTS; i++)
        hfi_list_init(&store->watches[i]);
    store->expiry_ms = store->inbox_ms = HFI_NEVER;
    store->members = hfi_calloc(url->host_count, sizeof *store->members);
    if (!store->members || !etcd_calls_open(store) ||
        !hfi_source_add(&store->work, &store->reactor, &work_calls))
        return hfi_error_memory(err);
    for (size_t i = 0; i < url->host_count; i++) {
        struct etcd_link_conf conf = { .reactor = &store->reactor,
                                       .address = &url->hosts[i],
                                       .tls = store->tls,
                                       .connect_ms = store->conf->connect_ms,
                                       .op_ms = store->conf->op_ms };

        store->members[i].feed.store = store;
        if (!etcd_link_init(&store->members[i].link, &conf))
            return hfi_error_memory(err);
    }
    return HF_OK;
}

void etcd_drive_close(struct etcd_store *store)
{
    etcd_watches_close(store);
    etcd_calls_close(store);
    for (size_t i = 0; store->members && i < store->conf->url.host_count; i++) {
        struct etcd_member *member = &store->members[i];

        etcd_link_done(&member->link);
        etcd_text_done(&member->feed.out);
        etcd_text_done(&member->feed.exchange.in);
    }
    hfi_free(store->members);
    store->members = NULL;
}

/* ---- work --------------------------------------------------------------------------------------------- */

static int64_t work_next_ms(const struct hfi_source *source)
{
    const struct etcd_store *store = hfi_container(source, struct etcd_store, work);
    const int64_t all[] = { etcd_leases_next_ms(store),  etcd_waits_next_ms(store),
                            etcd_watches_next_ms(store), etcd_changes_next_ms(store),
                            etcd_wants_next_ms(store),   store->expiry_ms };
    int64_t next = HFI_NEVER;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        next = all[i] < next ? all[i] : next;
    for (size_t i = 0; i < store->conf->url.host_count; i++) {
        int64_t link_ms = etcd_link_next_ms(&store->members[i].link);

        next = link_ms < next ? link_ms : next;
    }
    return next;
}

static void work_due(struct hfi_source *source, int64_t now_ms)
{
    struct etcd_store *store = hfi_container(source, struct etcd_store, work);

    for (size_t i = 0; i < store->conf->url.host_count; i++)
        etcd_link_due(&store->members[i].link, now_ms);
    etcd_leases_tick(store, now_ms);
    etcd_waits_tick(store, now_ms);
    etcd_watches_tick(store, now_ms);
    etcd_changes_tick(store, now_ms);
    etcd_wants_tick(store, now_ms);
    etcd_lapse_tick(store, now_ms);
}

static const struct hfi_source_calls work_calls = { .due = work_due, .next_ms = work_next_ms };
