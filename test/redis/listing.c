/* SPDX-License-Identifier: MIT */
/* Listing a server that has more names than fit on one page of SCAN, and keys that are no names of ours. */
#include "redis_bed.h"

#include <stdio.h>
#include <string.h>

#define NAMES 2500

static hf_view *list_all(hf_store *store, const char *pattern)
{
    hf_view *view = NULL;

    EXPECT(HF_OK, hf_store_inspect(store, pattern, HF_CSTRING, HF_INSPECT_FLAG_PATTERN, &view,
                                   &contract_error));
    return view;
}

static void pages_of_names(void **state)
{
    static const char *const foreign[] = { "hf:{}",       "hf:{name-1}:x", "hf:{na{me}",
                                           "hf:{name%zz", "hf:{name%zz}",  "hf:{name%6}",
                                           "other:{x}",   "hf:{gone}" };
    hf_store *store = open_direct();
    char name[HF_NAME_MAX + 100];
    hf_view *view;

    (void)state;
    for (int i = 0; i < NAMES; i++) {
        hf_acquire_request request;

        snprintf(name, sizeof name, "name-%04d", i);
        request = mutex_request(name);
        take(store, &request);
    }
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        server_do(server, "HSET %s no record", foreign[i]);
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    server_do(server, "HSET hf:{%s} no record", name);

    view = list_all(store, "name-*");
    CHECK(hf_view_count(view) == NAMES);
    for (int i = 0; i < NAMES; i++) {
        const hf_entry *entry = hf_view_entry(view, (size_t)i);

        snprintf(name, sizeof name, "name-%04d", i);
        CHECK(entry->name_len == strlen(name) && memcmp(entry->name, name, strlen(name)) == 0);
        CHECK(entry->holder_count == 1);
    }
    hf_free(view);
    view = list_all(store, "name-1*7");
    CHECK(hf_view_count(view) == 100);
    hf_free(view);
    CHECK(hf_close(store, HF_CLOSE_FLAG_RELEASE) == HF_OK);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { TEST(pages_of_names) };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
