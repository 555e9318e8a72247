/* SPDX-License-Identifier: MIT */
/* The door to malloc, and its hook. */
#include "unit.h"

#include "util/alloc.h"

#include <pthread.h>
#include <string.h>

/* Allocate once in each way in turn; returns whether it worked. */
static int try_one(unsigned way)
{
    void *memory = NULL;

    switch (way % 5) {
    case 0:
        memory = hfi_malloc(10);
        break;
    case 1:
        memory = hfi_calloc(2, 5);
        break;
    case 2:
        memory = hfi_realloc(NULL, 10);
        break;
    case 3:
        memory = hfi_strdup("x");
        break;
    case 4:
        memory = hfi_strndup("xyz", 2);
        break;
    }
    hfi_free(memory);
    return memory != NULL;
}

static void the_kth_fails_and_only_it(void **state)
{
    (void)state;
    for (unsigned k = 1; k <= 10; k++) {
        hfi_alloc_fail_at(k, 0);
        for (unsigned i = 1; i <= 12; i++)
            assert_int_equal(try_one(i), i != k);
        assert_int_equal(hfi_alloc_fail_at(0, 0), 12);
    }
}

static void the_kth_fails_and_all_after(void **state)
{
    (void)state;
    for (unsigned k = 1; k <= 10; k++) {
        hfi_alloc_fail_at(k, 1);
        for (unsigned i = 1; i <= 12; i++)
            assert_int_equal(try_one(i), i < k);
        assert_int_equal(hfi_alloc_fail_at(0, 1), 12);
    }
    for (unsigned i = 0; i < 10; i++)
        assert_true(try_one(i));
}

static void a_failed_realloc_keeps_the_memory(void **state)
{
    char *memory = hfi_strdup("content");

    (void)state;
    hfi_alloc_fail_at(1, 0);
    assert_null(hfi_realloc(memory, 1000));
    hfi_alloc_fail_at(0, 0);
    assert_string_equal(memory, "content");
    hfi_free(memory);
}

static void edges(void **state)
{
    char *text;
    void *memory;

    (void)state;
    memory = hfi_malloc(0);
    assert_non_null(memory);
    memory = hfi_realloc(memory, 0);
    assert_non_null(memory);
    hfi_free(memory);
    memory = hfi_calloc(0, 0);
    assert_non_null(memory);
    hfi_free(memory);
    hfi_free(NULL);

    text = hfi_strndup("abc", 100);
    assert_string_equal(text, "abc");
    hfi_free(text);
    text = hfi_strndup("abc", 0);
    assert_string_equal(text, "");
    hfi_free(text);
}

#define THREADS 4
#define ROUNDS  1000

static void *allocate_often(void *failures)
{
    for (unsigned i = 0; i < ROUNDS; i++)
        *(unsigned *)failures += !try_one(i);
    return NULL;
}

static void exactly_one_of_many_threads_fails(void **state)
{
    pthread_t threads[THREADS];
    unsigned failures[THREADS] = { 0 }, sum = 0;

    (void)state;
    hfi_alloc_fail_at(THREADS * ROUNDS / 2, 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_often, &failures[i]), 0);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        sum += failures[i];
    }
    assert_int_equal(sum, 1);
    assert_int_equal(hfi_alloc_fail_at(0, 0), THREADS * ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kth_fails_and_only_it),
        cmocka_unit_test(the_kth_fails_and_all_after),
        cmocka_unit_test(a_failed_realloc_keeps_the_memory),
        cmocka_unit_test(edges),
        cmocka_unit_test(exactly_one_of_many_threads_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
