/* SPDX-License-Identifier: MIT */
/*
 * A store that is closed while an acquire begins: the call says so, and touches nothing of the store. Each piece of memory
 * of the library is a mapping of its own, so a use after its end is a crash; and the store is closed from inside the
 * allocation of the request's long name, after the handle was found good.
 */
#include "unit.h"

#include "holdfast/holdfast.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HEAD 64

static hf_store *close_it; /* by the next allocation */

static void *map(size_t bytes, void *arg)
{
    hf_store *store = close_it;
    char *memory;

    (void)arg;
    close_it = NULL;
    if (store)
        assert_int_equal(hf_close(store, 0), HF_OK);
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
    assert_null(lease);
    assert_int_equal(err.status, HF_INVALID);
    assert_string_equal(err.text, "store: it was closed");
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): our own words */
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(closed_while_an_acquire_begins),
    };
    hf_allocator allocator = HF_ALLOCATOR_INIT;

    allocator.allocate = map;
    allocator.resize = remap;
    allocator.release = unmap;
    assert_int_equal(hf_allocator_set(&allocator), HF_OK);
    return cmocka_run_group_tests(cases, NULL, NULL);
}
