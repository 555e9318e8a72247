/* SPDX-License-Identifier: MIT */
/*
 * From writer to reader and back, without a gap in which somebody else could write.
 *
 * A writer that has changed a document and now only reads it becomes a reader: the others come in, and no other writer has been in
 * between. A reader that may have to write later says so at the beginning: it is the UPGRADEABLE one, of which there is one at a
 * time, beside any number of plain readers. It becomes the writer when those have left, before all others that wait. (A plain reader
 * cannot: two that tried would wait for each other. See readwrite.c.)
 *
 * One thread plays all of them, with a scope of its own for each.
 */
#include "example.h"

#include <inttypes.h>

enum { ADA = 1, BOB, EVE };

static hf_status take(hf_store *store, uint64_t who, hf_kind kind, hf_lease **ret_lease)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_error err;
    hf_status status;

    request.name = "example/page";
    request.name_len = HF_CSTRING;
    request.kind = kind;
    request.scope = who;
    status = hf_acquire(store, &request, ret_lease, &err);
    if (status != HF_BUSY)
        must(status, &err);
    return status;
}

/* HF_OK: the handle is a new one, and so is the token. Else the lease is still what it was. */
static hf_status become(hf_lease **lease, hf_kind kind)
{
    hf_error err;
    hf_status status = hf_convert(lease, kind, 0, &err);

    if (status != HF_BUSY)
        must(status, &err);
    return status;
}

static void leave(hf_lease *lease)
{
    hf_error err;

    must(hf_release(lease, &err), &err);
}

static void writer_becomes_reader(hf_store *store)
{
    hf_lease *ada, *bob, *eve;

    expect(take(store, ADA, HF_KIND_EXCLUSIVE, &ada) == HF_OK, "Ada writes");
    expect(take(store, BOB, HF_KIND_SHARED, &bob) == HF_BUSY, "no reader meanwhile");
    expect(become(&ada, HF_KIND_SHARED) == HF_OK, "Ada reads what she wrote");
    expect(take(store, BOB, HF_KIND_SHARED, &bob) == HF_OK, "Bob reads it too");
    expect(take(store, EVE, HF_KIND_EXCLUSIVE, &eve) == HF_BUSY, "nobody has changed it");
    printf("Ada wrote, and is a reader now; Bob reads beside her, and Eve cannot write\n");
    leave(bob);
    leave(ada);
}

static void reader_becomes_writer(hf_store *store)
{
    hf_lease *ada, *bob, *eve;
    uint64_t token;

    expect(take(store, ADA, HF_KIND_UPGRADEABLE, &ada) == HF_OK, "Ada reads, and may write later");
    expect(take(store, BOB, HF_KIND_SHARED, &bob) == HF_OK, "Bob reads beside her");
    expect(take(store, EVE, HF_KIND_UPGRADEABLE, &eve) == HF_BUSY,
           "one of that kind at a time, so that no two wait for each other");

    expect(become(&ada, HF_KIND_EXCLUSIVE) == HF_BUSY, "not while Bob reads");
    printf("Ada wants to write, and Bob still reads: she stays the reader that she was\n");
    leave(bob);
    token = hf_lease_token(ada);
    expect(become(&ada, HF_KIND_EXCLUSIVE) == HF_OK, "Ada writes");
    expect(hf_lease_token(ada) > token, "with a new token");
    printf("Bob has left, and Ada writes; what she read is still so. Her token: %" PRIu64 "\n",
           hf_lease_token(ada));
    leave(ada);
}

int main(int argc, char **argv)
{
    hf_store *store;

    needs(url_of(argc, argv), HF_CAP_SHARED | HF_CAP_CONVERT);
    store = open_store(argc, argv);
    writer_becomes_reader(store);
    reader_becomes_writer(store);
    close_store(store);
    return 0;
}
