/* SPDX-License-Identifier: MIT */
/* Listing more claims than fit on one page: a name that goes on behind the end of a page is shown once, and whole. */
#include "etcd_bed.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#define BEFORE  995 /* names, before the one that goes on; a page has 1000 claims */
#define HOLDERS 10

static void acquired(const hf_result *result, void *arg)
{
    EXPECT(HF_OK, result->status);
    ++*(int *)arg;
}

/* One lease each. */
static void take_names(hf_store *store, const char *format, int count)
{
    int begun = 0, done = 0;
    char name[32];

    while (done < count) {
        for (; begun < count && begun < done + 20; begun++) {
            hf_acquire_request request;

            snprintf(name, sizeof name, format, begun);
            request = mutex_request(name);
            EXPECT(HF_OK,
                   hf_acquire_async(store, &request, acquired, &done, NULL, &contract_error));
        }
        poll(&(struct pollfd){ .fd = hf_store_fd(store), .events = POLLIN }, 1,
             hf_store_timeout_ms(store));
        EXPECT(HF_OK, hf_store_process(store));
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
    hf_store *store = open_with("");
    hf_acquire_request request = mutex_request("large");
    hf_view *view = NULL;
    char name[32];

    (void)state;
    take_names(store, "a-%03d", BEFORE);
    take_names(store, "large-%d", 1);
    take_names(store, "largest-%d", 1);
    request.kind = HF_KIND_SEMAPHORE;
    request.capacity = 2 * HOLDERS;
    for (int i = 0; i < HOLDERS; i++)
        take(store, &request);

    EXPECT(HF_OK,
           hf_store_inspect(store, NULL, 0, HF_INSPECT_FLAG_PATTERN, &view, &contract_error));
    CHECK(hf_view_count(view) == BEFORE + 3);
    for (int i = 0; i < BEFORE; i++) {
        snprintf(name, sizeof name, "a-%03d", i);
        check_entry(view, (size_t)i, name, 1);
    }
    check_entry(view, BEFORE, "large", HOLDERS);
    check_entry(view, BEFORE + 1, "large-0", 1);
    check_entry(view, BEFORE + 2, "largest-0", 1);
    hf_free(view);
    EXPECT(HF_OK,
           hf_store_inspect(store, "l*e", 3, HF_INSPECT_FLAG_PATTERN, &view, &contract_error));
    CHECK(hf_view_count(view) == 1);
    check_entry(view, 0, "large", HOLDERS);
    hf_free(view);
    hf_close(store, 0); /* the server goes with all of it */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { TEST(a_name_on_two_pages) };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
