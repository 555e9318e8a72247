/* SPDX-License-Identifier: MIT */
/* Listing more claims than fit on one page: a name that goes on behind the end of a page is shown once, and whole. */
#include "etcd_bed.h"

#include <stdio.h>
#include <string.h>

#define HOLDERS 1100 /* of one name; a page has 1000 claims */

static void acquired(const hf_result *result, void *arg)
{
    EXPECT(HF_OK, result->status);
    ++*(int *)arg;
}

static void take_all(hf_store *store, hf_acquire_request request, int count)
{
    int done = 0;

    for (int i = 0; i < count; i++)
        EXPECT(HF_OK, hf_acquire_async(store, &request, acquired, &done, NULL, &contract_error));
    while (done < count) {
        EXPECT(HF_OK, hf_store_process(store));
        nap_ms(1);
    }
}

static void check_entry(const hf_view *view, size_t index, const char *name, size_t holders)
{
    const hf_entry *entry = hf_view_entry(view, index);

    CHECK(entry->name_len == strlen(name) && memcmp(entry->name, name, entry->name_len) == 0);
    CHECK(entry->holder_count == holders && entry->taken == holders);
}

static void a_name_on_two_pages(void **state)
{
    static const char *const others[] = { "a", "large-", "largest", "z" };
    hf_store *store = open_with("");
    hf_acquire_request request = mutex_request("large");
    hf_view *view = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        take_all(store, mutex_request(others[i]), 1);
    request.kind = HF_KIND_SEMAPHORE;
    request.capacity = 2 * HOLDERS;
    take_all(store, request, HOLDERS);

    EXPECT(HF_OK,
           hf_store_inspect(store, NULL, 0, HF_INSPECT_FLAG_PATTERN, &view, &contract_error));
    CHECK(hf_view_count(view) == 5);
    check_entry(view, 0, "a", 1);
    check_entry(view, 1, "large", HOLDERS);
    check_entry(view, 2, "large-", 1);
    check_entry(view, 3, "largest", 1);
    check_entry(view, 4, "z", 1);
    hf_free(view);
    EXPECT(HF_OK,
           hf_store_inspect(store, "[az]", 4, HF_INSPECT_FLAG_PATTERN, &view, &contract_error));
    CHECK(hf_view_count(view) == 2);
    hf_free(view);
    hf_close(store, 0); /* the server goes with all of it */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { TEST(a_name_on_two_pages) };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
