/* SPDX-License-Identifier: MIT */
/* etcd: base64, keys, values, and answers as JSON. */
#include "fuzz.h"

#include "engine/etcd/internal.h"

#define PREFIX "holdfast"

static void base64(const char *bytes, size_t len)
{
    char decoded[300];
    size_t got = etcd_unbase64(bytes, len, decoded, sizeof decoded);
    struct etcd_text text = { 0 };

    if (got == SIZE_MAX)
        return;
    MUST(got <= sizeof decoded);
    etcd_add_base64(&text, decoded, got);
    MUST(!text.failed &&
         etcd_unbase64(text.bytes ? text.bytes : "", text.len, decoded, sizeof decoded) == got);
    etcd_text_done(&text);
}

static void key(const char *bytes, size_t len)
{
    struct etcd_record record = { 0 };
    unsigned char place[HFI_OWNER_LEN];

    if (etcd_read_key(PREFIX, bytes, len, &record)) {
        MUST(record.name_len > 0 && record.name_len <= HF_NAME_MAX && record.capacity > 0);
        MUST(etcd_key_place(bytes, len, place));
        MUST(memcmp(place, record.place, sizeof place) == 0);
    }
}

static void value(const char *bytes, size_t len)
{
    struct etcd_record record = { 0 };

    if (etcd_read_value(bytes, len, &record)) {
        MUST(record.permits > 0 && record.ttl_s >= 0 && record.since_ms >= 0);
        MUST(memchr(record.label, 0, sizeof record.label));
        MUST(strlen(record.store) == ETCD_STORE_HEX);
    }
}

static void answer(const char *bytes, size_t len)
{
    struct etcd_conf conf = { .prefix = (char *)(uintptr_t)PREFIX };
    struct etcd_store store = { .conf = &conf };
    struct etcd_record record = { 0 };
    json_t *reply = json_loadb(bytes, len, 0, NULL);
    const json_t *kvs;

    (void)etcd_revision(reply);
    (void)etcd_term(reply);
    kvs = json_object_get(etcd_response(reply, 0, "response_range"), "kvs");
    if (!kvs)
        kvs = json_object_get(reply, "kvs");
    for (size_t i = 0; i < json_array_size(kvs); i++)
        if (etcd_kv(&store, json_array_get(kvs, i), &record))
            MUST(record.revision > 0 && record.permits <= record.capacity);
    json_decref(reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static void (*const decoders[])(const char *, size_t) = { base64, key, value, answer };
    struct fuzz_input in = { data, len };
    uint8_t which = fuzz_byte(&in) % 4;
    char *exact = fuzz_exact(in.at, in.len);

    decoders[which](exact, in.len);
    free(exact);
    return 0;
}
