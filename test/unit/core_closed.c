/* SPDX-License-Identifier: MIT */
/*
 * A store that is closed while a call begins. Either the call says so, and touches nothing of the store; or it has entered
 * the store, and the close is refused. Each piece of memory of the library is a mapping of its own, so a use after its end
 * is a crash; and the store is closed from inside an allocation, after the handle was found good.
 */
#include "unit.h"

#include "core/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HEAD 64

static hf_store *close_it; /* by the next allocation */
static hf_status closed;   /* what that said */

static void *map(size_t bytes, void *arg)
{
    hf_store *store = close_it;
    char *memory;

    (void)arg;
    close_it = NULL;
    if (store)
        closed = hf_close(store, 0);
    memory = mmap(NULL, bytes + HEAD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    memcpy(memory, &bytes, sizeof bytes);
    return memory + HEAD;
}

static void unmap(void *memory, void *arg)
{
    size_t bytes;

    (void)arg;
    memcpy(&bytes, (char *)memory - HEAD, sizeof bytes);
    assert_int_equal(munmap((char *)memory - HEAD, bytes + HEAD), 0);
}

static void *remap(void *memory, size_t bytes, void *arg)
{
    char *larger = map(bytes, arg);
    size_t before;

    if (!memory || !larger)
        return larger;
    memcpy(&before, (char *)memory - HEAD, sizeof before);
    memcpy(larger, memory, before < bytes ? before : bytes);
    unmap(memory, arg);
    return larger;
}

static void closed_while_an_acquire_begins(void **state)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    char name[200], dir[] = "/tmp/holdfast-closed-XXXXXX", url[64], command[64];
    hf_store *store = NULL;
    hf_lease *lease = NULL;
    hf_error err;

    (void)state;
    memset(name, 'n', sizeof name); /* too long for the slot of a lease: memory is needed for it */
    request.name = name;
    request.name_len = sizeof name;
    assert_non_null(mkdtemp(dir));
    snprintf(url, sizeof url, "file:%s", dir);
    assert_int_equal(hf_open(url, NULL, &store, &err), HF_OK);
    assert_int_equal(hf_acquire(store, &request, &lease, &err), HF_OK);
    assert_int_equal(hf_release(lease, &err), HF_OK);
    lease = NULL;
    close_it = store;
    assert_int_equal(hf_acquire(store, &request, &lease, &err), HF_INVALID);
    assert_null(close_it);
    assert_int_equal(closed, HF_OK);
    assert_null(lease);
    assert_int_equal(err.status, HF_INVALID);
    assert_string_equal(err.text, "store: it was closed");
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): our own words */
}

/* ---- several names, on an EVENT engine that does everything in submit() ------------------------------------ */

static hf_status event_open(void *store, struct hfi_conf *conf, struct hfi_host *host,
                            hf_error *err)
{
    (void)store, (void)conf, (void)host, (void)err;
    return HF_OK;
}

static void event_close(void *store)
{
    (void)store;
}

static void event_submit(void *store, struct hfi_op *op)
{
    (*(_Atomic int *)store)++;
    hfi_op_finish(op, HF_OK);
}

static void event_cancel(void *store, struct hfi_op *op, hf_status status)
{
    (void)store, (void)op, (void)status;
}

static int event_fd(void *store)
{
    (void)store;
    return -1;
}

static int event_timeout(void *store, int64_t now_ms)
{
    (void)store, (void)now_ms;
    return -1;
}

static void event_process(void *store, int64_t now_ms)
{
    (void)now_ms;
    (*(_Atomic int *)store)++;
}

static void event_cork(void *store, bool on)
{
    (void)on;
    (*(_Atomic int *)store)++;
}

static const struct hfi_form event_forms[] = { { .scheme = "nullevent" }, { .scheme = NULL } };
static const struct hfi_param event_params[] = { { .name = NULL } };
static const struct hfi_conf_type event_conf = { sizeof(struct hfi_conf), event_forms,
                                                 event_params };

static const struct hfi_engine event_engine = {
    .abi = HFI_ENGINE_ABI,
    .drive = &(const struct hfi_drive){ .kind = HFI_EVENT,
                                        .fd = event_fd,
                                        .timeout_ms = event_timeout,
                                        .process = event_process,
                                        .cork = event_cork },
    .promises = &(const struct hfi_promises){ .name = "nullevent",
                                              .schemes = "nullevent",
                                              .caps = HF_CAP_PROCESS },
    .open = event_open,
    .close = event_close,
    .conf = &event_conf,
    .store_size = sizeof(_Atomic int),
    .submit = event_submit,
    .cancel = event_cancel,
};

static void closed_while_several_are_acquired(void **state)
{
    hf_acquire_request requests[2] = { HF_ACQUIRE_REQUEST_INIT, HF_ACQUIRE_REQUEST_INIT };
    hf_lease *leases[2] = { NULL, NULL };
    hf_store *store = NULL;
    hf_error err;

    (void)state;
    requests[0].name = "a";
    requests[1].name = "b";
    requests[0].name_len = requests[1].name_len = 1;
    assert_int_equal(hf_open("nullevent:", NULL, &store, &err), HF_OK);
    close_it = store;
    assert_int_equal(hf_acquire_all(store, requests, 2, leases, &err), HF_OK);
    assert_null(close_it);
    assert_int_equal(closed, HF_IN_USE);
    assert_int_equal(hf_release_all(leases, 2, &err), HF_OK);
    assert_int_equal(hf_close(store, 0), HF_OK);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(closed_while_an_acquire_begins),
        cmocka_unit_test(closed_while_several_are_acquired),
    };
    hf_allocator allocator = HF_ALLOCATOR_INIT;

    allocator.allocate = map;
    allocator.resize = remap;
    allocator.release = unmap;
    assert_int_equal(hf_allocator_set(&allocator), HF_OK);
    hfi_registry_add(&event_engine);
    return cmocka_run_group_tests(cases, NULL, NULL);
}
