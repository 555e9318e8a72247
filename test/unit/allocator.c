/* SPDX-License-Identifier: MIT */
/* hf_allocator_set(): all of the library's memory comes from it and goes back to it, and nothing else does. */
#include "unit.h"

#include "calls.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK 0x686f6c6466617374

/* Before each piece of memory. A piece that malloc(3) made has no such mark before it. */
struct head {
    _Alignas(16) uint64_t mark;
    size_t size;
};

static char arg_of_ours;
static atomic_long pieces, made;

static void *allocate(size_t bytes, void *arg)
{
    struct head *head = malloc(sizeof *head + bytes);

    assert_ptr_equal(arg, &arg_of_ours);
    assert_non_null(head);
    *head = (struct head){ MARK, bytes };
    atomic_fetch_add(&pieces, 1);
    atomic_fetch_add(&made, 1);
    return memset(head + 1, 0xa5, bytes); /* nobody may take it for zero */
}

static void release(void *memory, void *arg)
{
    struct head *head = (struct head *)memory - 1;

    assert_ptr_equal(arg, &arg_of_ours);
    assert_true(head->mark == MARK);
    head->mark = 0;
    atomic_fetch_sub(&pieces, 1);
    free(head);
}

static void *resize(void *memory, size_t bytes, void *arg)
{
    struct head *head;
    void *larger;

    if (!memory)
        return allocate(bytes, arg);
    head = (struct head *)memory - 1;
    assert_true(head->mark == MARK);
    larger = allocate(bytes, arg);
    memcpy(larger, memory, head->size < bytes ? head->size : bytes);
    release(memory, arg);
    return larger;
}

static void is_refused_without_all_three(void **state)
{
    hf_allocator allocator = HF_ALLOCATOR_INIT;

    (void)state;
    assert_int_equal(hf_allocator_set(NULL), HF_INVALID);
    assert_int_equal(hf_allocator_set(&allocator), HF_INVALID);
    allocator.allocate = allocate;
    allocator.resize = resize;
    assert_int_equal(hf_allocator_set(&allocator), HF_INVALID);
    allocator.release = release;
    allocator.size = 8;
    assert_int_equal(hf_allocator_set(&allocator), HF_INVALID);
}

/* What callers get is freed by hf_free(). */
static void use(hf_store *store)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_cell cell = HF_CELL_INIT;
    hf_report *report = NULL;
    hf_lease *lease = NULL;
    hf_view *view = NULL;
    hf_error err;

    request.name = "job";
    request.name_len = HF_CSTRING;
    assert_int_equal(hf_acquire(store, &request, &lease, &err), HF_OK);
    assert_int_equal(hf_store_inspect(store, "job", 3, 0, &view, &err), HF_OK);
    assert_int_equal(hf_view_count(view), 1);
    assert_int_equal(hf_release(lease, &err), HF_OK);
    assert_int_equal(call_cell_set(store, "cell", 4, "bytes", 5, 0, NULL, &err), HF_OK);
    assert_int_equal(hf_cell_get(store, "cell", 4, &cell, &err), HF_OK);
    assert_string_equal(cell.bytes, "bytes");
    assert_int_equal(hf_store_check(store, &report, &err), HF_OK);
    assert_true(hf_report_count(report) > 0);
    hf_free(view);
    hf_free(cell.bytes);
    hf_free(report);
    hf_free(NULL);
}

static void all_memory_is_its(void **state)
{
    hf_allocator allocator = HF_ALLOCATOR_INIT;
    char dir[] = "/tmp/holdfast-allocator-XXXXXX", url[64], command[64];
    hf_store *store = NULL;
    long before;
    hf_error err;

    (void)state;
    allocator.allocate = allocate;
    allocator.resize = resize;
    allocator.release = release;
    allocator.arg = &arg_of_ours;
    assert_int_equal(hf_allocator_set(&allocator), HF_OK);
    assert_non_null(mkdtemp(dir));
    snprintf(url, sizeof url, "file:%s", dir);
    for (int i = 0; i < 2; i++) { /* what the first store leaves for ever, the second finds */
        before = atomic_load(&pieces);
        assert_int_equal(hf_open(url, NULL, &store, &err), HF_OK);
        use(store);
        assert_int_equal(hf_close(store, 0), HF_OK);
    }
    assert_true(atomic_load(&made) > 20);
    assert_int_equal(atomic_load(&pieces), before);
    assert_int_equal(hf_allocator_set(&allocator), HF_IN_USE); /* too late */
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): our own words */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_refused_without_all_three),
        cmocka_unit_test(all_memory_is_its),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
