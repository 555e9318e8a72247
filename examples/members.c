/* SPDX-License-Identifier: MIT */
/*
 * Members of a group: workers that join with their address, and a dispatcher that learns of those that come and go. A worker
 * whose process dies leaves the list when the store has ended its lease.
 */
#include "example.h"

#include <holdfast/primitives.h>
#include <pthread.h>
#include <unistd.h>

static hf_lease *join(hf_store *store, const char *address)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_lease *member;
    hf_error err;

    request.name = "example/workers";
    request.name_len = HF_CSTRING;
    must(hf_member_join(store, &request, address, &member, &err), &err);
    return member;
}

/* Waits until the list is another one than `last`, which it frees. */
static hf_members *next_list(hf_store *store, hf_members *last)
{
    hf_members_request request = HF_MEMBERS_REQUEST_INIT;
    hf_members *members;
    hf_error err;

    request.name = "example/workers";
    request.name_len = HF_CSTRING;
    request.last = last;
    request.wait_ms = 60000;
    must(hf_members_wait(store, &request, &members, &err), &err);
    hf_free(last);
    printf("%zu:", hf_members_count(members));
    for (size_t i = 0; i < hf_members_count(members); i++)
        printf(" %s", hf_members_item(members, i)->value);
    printf("\n");
    return members;
}

static void *leave_soon(void *arg)
{
    usleep(100 * 1000);
    (void)hf_member_leave(arg, NULL);
    return NULL;
}

int main(int argc, char **argv)
{
    hf_lease *first, *second;
    hf_members *members;
    hf_store *store;
    pthread_t thread;
    hf_error err;

    needs(url_of(argc, argv), HF_CAP_SHARED | HF_CAP_INSPECT | HF_CAP_TOKEN);
    store = open_store(argc, argv);
    first = join(store, "10.0.0.7:8080");
    second = join(store, "10.0.0.8:8080");
    members = next_list(store, NULL);
    expect(hf_members_count(members) == 2, "both");

    expect(pthread_create(&thread, NULL, leave_soon, first) == 0, "a thread");
    members = next_list(store, members);
    expect(hf_members_count(members) == 1, "the one that stayed");
    pthread_join(thread, NULL);

    hf_free(members);
    must(hf_member_leave(second, &err), &err);
    close_store(store);
    return 0;
}
