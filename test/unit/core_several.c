/* SPDX-License-Identifier: MIT */
/*
 * Several names on an engine whose connection carries many requests: both forms ask for all of them before the first is
 * answered, keep what comes before the first busy name, and give the rest back.
 */
#include "unit.h"

#include "core/registry.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define NAMES 5

/* ---- an engine that answers only when it is driven ------------------------------------------------------ */

static struct {
    int fd;
    struct hfi_op *waiting[2 * NAMES];
    int count, most; /* ops under way; the most at once */
    char busy;       /* this name is; 0: none */
    int acquires, releases;
    struct hfi_host *host;
    struct hfi_claim *granted; /* the last one */
    bool deaf;                 /* it answers nothing */
} server;

static hf_status event_open(void *store, struct hfi_conf *conf, struct hfi_host *host,
                            hf_error *err)
{
    (void)store, (void)conf, (void)err;
    server.host = host;
    server.fd = eventfd(1, EFD_CLOEXEC);
    return server.fd >= 0 ? HF_OK : HF_UNAVAILABLE;
}

static void event_close(void *store)
{
    (void)store;
    close(server.fd);
}

static void event_submit(void *store, struct hfi_op *op)
{
    (void)store;
    server.waiting[server.count++] = op;
    if (server.count > server.most)
        server.most = server.count;
}

static void event_cancel(void *store, struct hfi_op *op, hf_status status)
{
    (void)store, (void)op, (void)status;
}

static int event_fd(void *store)
{
    (void)store;
    return server.fd;
}

static int event_timeout(void *store, int64_t now_ms)
{
    (void)store, (void)now_ms;
    return -1;
}

static void event_process(void *store, int64_t now_ms)
{
    struct hfi_op *ops[2 * NAMES];
    int count = server.count;

    (void)store, (void)now_ms;
    if (server.deaf)
        return;
    memcpy(ops, server.waiting, sizeof ops);
    server.count = 0;
    for (int i = 0; i < count; i++) {
        bool busy = ops[i]->kind == HFI_OP_ACQUIRE && ops[i]->claim->name.bytes[0] == server.busy;

        if (ops[i]->kind == HFI_OP_ACQUIRE)
            server.acquires++;
        else
            server.releases++;
        if (busy && ops[i]->may_wait) { /* its holder lets go of it */
            busy = false;
            server.busy = 0;
        }
        if (ops[i]->kind == HFI_OP_ACQUIRE && !busy)
            server.granted = ops[i]->claim;
        hfi_op_finish(ops[i], busy ? HF_BUSY : HF_OK);
    }
}

static const struct hfi_form event_forms[] = { { .scheme = "nullseveral" }, { .scheme = NULL } };
static const struct hfi_param event_params[] = { { .name = NULL } };
static const struct hfi_conf_type event_conf = { sizeof(struct hfi_conf), event_forms,
                                                 event_params };

static const struct hfi_engine event_engine = {
    .abi = HFI_ENGINE_ABI,
    .drive = &(const struct hfi_drive){ .kind = HFI_EVENT,
                                        .fd = event_fd,
                                        .timeout_ms = event_timeout,
                                        .process = event_process },
    .promises = &(const struct hfi_promises){ .name = "nullseveral",
                                              .schemes = "nullseveral",
                                              .caps = HF_CAP_PROCESS | HF_CAP_WAIT },
    .open = event_open,
    .close = event_close,
    .conf = &event_conf,
    .store_size = sizeof(int),
    .submit = event_submit,
    .cancel = event_cancel,
};

/* ---- both forms --------------------------------------------------------------------------------------- */

struct heard {
    int calls;
    hf_status status;
    hf_lease *leases[NAMES];
};

static void on_done(const hf_result *result, void *arg)
{
    struct heard *heard = arg;

    heard->status = result->status;
    if (result->leases)
        memcpy(heard->leases, result->leases, sizeof heard->leases);
    heard->calls++;
}

static void pump(hf_store *store, const struct heard *heard)
{
    while (heard->calls == 0)
        assert_int_equal(hf_store_process(store), HF_OK);
}

static void take_and_give_all(hf_store *store, bool async, char busy)
{
    hf_acquire_request requests[NAMES];
    struct heard heard = { .calls = 0 };
    hf_error err;
    int behind = busy ? 'a' + NAMES - 1 - busy : 0;

    for (int i = 0; i < NAMES; i++) {
        static const char names[] = "ebdca";

        requests[i] = (hf_acquire_request)HF_ACQUIRE_REQUEST_INIT;
        requests[i].name = &names[i];
        requests[i].name_len = 1;
        requests[i].wait_ms = HF_FOREVER;
    }
    server.most = server.acquires = server.releases = 0;
    server.busy = busy;
    if (async) {
        assert_int_equal(hf_acquire_all_async(store, requests, NAMES, on_done, &heard, NULL, &err),
                         HF_OK);
        pump(store, &heard);
        assert_int_equal(heard.status, HF_OK);
    } else {
        assert_int_equal(hf_acquire_all(store, requests, NAMES, heard.leases, &err), HF_OK);
    }
    assert_int_equal(server.most, NAMES);
    assert_int_equal(server.releases, behind);
    assert_int_equal(server.acquires, NAMES + (busy ? 1 + behind : 0));

    server.most = server.releases = 0;
    if (async) {
        struct heard given = { .calls = 0 };

        assert_int_equal(hf_release_all_async(heard.leases, NAMES, on_done, &given, NULL, &err),
                         HF_OK);
        pump(store, &given);
        assert_int_equal(given.status, HF_OK);
    } else {
        assert_int_equal(hf_release_all(heard.leases, NAMES, &err), HF_OK);
    }
    assert_int_equal(server.most, NAMES);
    assert_int_equal(server.releases, NAMES);
}

static void all_are_under_way_at_once(void **state)
{
    hf_store *store = NULL;
    hf_error err;

    (void)state;
    assert_int_equal(hf_open("nullseveral:", NULL, &store, &err), HF_OK);
    assert_true(hf_store_fd(store) >= 0); /* no other thread drives */
    for (int async = 0; async < 2; async++) {
        take_and_give_all(store, async, 0);
        for (char busy = 'a'; busy < 'a' + NAMES; busy++)
            take_and_give_all(store, async, busy);
    }
    assert_int_equal(hf_close(store, 0), HF_OK);
}

/* What the release of a lost lease says is known before the store answers, or does not. */
static void a_lost_one_is_not_answered(void **state)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    unsigned char owner[HFI_OWNER_LEN];
    hf_store *store = NULL;
    hf_lease *lease;
    uint64_t count;
    hf_error err;

    (void)state;
    assert_int_equal(hf_open("nullseveral:", NULL, &store, &err), HF_OK);
    assert_true(hf_store_fd(store) >= 0);
    request.name = "x";
    request.name_len = 1;
    assert_int_equal(hf_acquire_all(store, &request, 1, &lease, &err), HF_OK);
    memcpy(owner, server.granted->owner, sizeof owner);
    server.host->lost(server.host, server.granted, owner, "it was stolen");

    server.deaf = true;
    assert_int_equal(read(server.fd, &count, sizeof count), sizeof count);
    assert_int_equal(hf_release_all(&lease, 1, &err), HF_LOST);
    assert_int_equal(err.status, HF_LOST);
    assert_non_null(strstr(err.text, "it was stolen"));

    server.deaf = false; /* the answer comes late, to nobody */
    assert_int_equal(write(server.fd, &count, sizeof count), sizeof count);
    assert_int_equal(hf_close(store, 0), HF_OK);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(all_are_under_way_at_once),
        cmocka_unit_test(a_lost_one_is_not_answered),
    };

    hfi_registry_add(&event_engine);
    return cmocka_run_group_tests(cases, NULL, NULL);
}
