/* SPDX-License-Identifier: MIT */
/* etcd: keys, values, and answers as protocol buffers. */
#include "fuzz.h"

#include "engine/etcd/internal.h"

#define PREFIX "holdfast"

/* What fits a form can be read to its end, and says the same if it is written again. */
static void message(const char *bytes, size_t len)
{
    static const struct etcd_form pairs = { .fields = { { 1, ETCD_NUMBER, NULL },
                                                        { 2, ETCD_MESSAGES, NULL } } };
    struct etcd_message all = { (const unsigned char *)bytes, len }, at = all, one;
    struct etcd_text text = { 0 };
    size_t count = 0;

    if (!etcd_message_fits(all, &pairs))
        return;
    etcd_put_number(&text, 1, etcd_number(all, 1));
    for (; etcd_next(&at, 2, &one); count++) {
        size_t begun = etcd_put_begin(&text, 2);

        MUST(one.at >= all.at && one.at + one.len <= all.at + all.len);
        etcd_add_bytes(&text, one.at, one.len);
        etcd_put_end(&text, begun);
    }
    at = (struct etcd_message){ (const unsigned char *)text.bytes, text.len };
    MUST(etcd_message_fits(at, &pairs) && etcd_number(at, 1) == etcd_number(all, 1));
    MUST(etcd_count(at, 2) == count);
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

static void records(struct etcd_message range)
{
    struct etcd_record record = { 0 };
    struct etcd_message one;
    struct etcd_key key;

    while (etcd_next(&range, ETCD_RANGE_KVS, &one)) {
        if (etcd_kv(PREFIX, one, &record))
            MUST(record.revision > 0 && record.permits <= record.capacity);
        if (etcd_kv_key(one, &key))
            MUST(key.len <= sizeof key.bytes);
    }
}

/* The first byte chooses the method. Readers look at what does not fit, too: they must not leave it. */
static void answer(const char *bytes, size_t len)
{
    static const struct etcd_method *const methods[] = { &etcd_range_method, &etcd_txn_method,
                                                         &etcd_keep_method,  &etcd_watch_method,
                                                         &etcd_alarm_method, &etcd_status_method };
    const struct etcd_method *method = methods[len ? (unsigned char)*bytes % 6 : 0];
    struct etcd_message reply = { (const unsigned char *)bytes + (len > 0), len - (len > 0) };
    struct etcd_message at = reply, one;

    (void)etcd_message_fits(reply, method->reply);
    (void)etcd_revision(reply);
    (void)etcd_term(reply);
    MUST(etcd_ttl_ms(reply) >= 0 && etcd_ttl_ms(reply) <= HF_DURATION_MAX_MS);
    records(reply);
    records(etcd_response(reply, 0, ETCD_RESPONSE_RANGE));
    records(etcd_response(reply, 1, ETCD_RESPONSE_RANGE));
    while (etcd_next(&at, ETCD_WATCH_EVENTS, &one))
        (void)etcd_number(etcd_part(one, ETCD_EVENT_KV), ETCD_KV_MODIFIED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static void (*const decoders[])(const char *, size_t) = { message, key, value, answer };
    struct fuzz_input in = { data, len };
    uint8_t which = fuzz_byte(&in) % 4;
    char *exact = fuzz_exact(in.at, in.len);

    decoders[which](exact, in.len);
    free(exact);
    return 0;
}
