/* SPDX-License-Identifier: MIT */
#include "bed.h"
#include "fake.h"

#include "core/conf.h"
#include "util/clock.h"

#include <stdio.h>
#include <string.h>

static void note_up(struct hfi_link *link)
{
    struct bed *bed = hfi_link_data(link);

    assert_int_equal(hfi_link_state(link), HFI_STREAM_UP);
    bed->ups++;
}

static void note_down(struct hfi_link *link, hf_status status, const char *why)
{
    struct bed *bed = hfi_link_data(link);

    assert_int_equal(hfi_link_state(link), HFI_STREAM_IDLE);
    assert_int_equal(hfi_link_in_flight(link), 0);
    assert_int_equal(hfi_link_stream(link)->fd, -1);
    bed->downs++;
    bed->status = status;
    snprintf(bed->why, sizeof bed->why, "%s", why);
}

static void note_message(struct hfi_link *link, const char *channel, size_t channel_len,
                         const char *payload, size_t len)
{
    struct bed *bed = hfi_link_data(link);

    bed->messages++;
    snprintf(bed->channel, sizeof bed->channel, "%.*s", (int)channel_len, channel);
    snprintf(bed->payload, sizeof bed->payload, "%.*s", (int)len, payload);
}

static const struct hfi_link_owner owner = { note_up, note_down, note_message };

struct hfi_redis_conf *parse_conf(const char *text)
{
    struct hfi_conf *conf = NULL;
    struct hfi_url url;
    hf_error err;

    assert_int_equal(hfi_url_parse(text, &url, &err), HF_OK);
    if (hfi_conf_read(&url, &redis_conf_type, &conf, &err) != HF_OK ||
        redis_conf_finish((struct hfi_redis_conf *)conf, "wire test", &err) != HF_OK)
        fail_msg("%s: %s", text, err.text);
    hfi_url_done(&url);
    return (struct hfi_redis_conf *)conf;
}

void bed_init(struct bed *bed, const char *url, bool subscriber)
{
    hf_error err;

    *bed = (struct bed){ .conf = parse_conf(url) };
    assert_int_equal(hfi_reactor_init(&bed->reactor, NULL, NULL, &err), HF_OK);
    bed->link =
        hfi_link_new(bed->conf, &bed->conf->url.hosts[0], subscriber, &bed->reactor, &owner, bed);
    assert_non_null(bed->link);
}

void bed_done(struct bed *bed)
{
    hfi_link_close(bed->link);
    hfi_link_free(bed->link);
    hfi_reactor_done(&bed->reactor);
    redis_conf_done(bed->conf);
    hfi_conf_free(bed->conf);
}

void bed_open(struct bed *bed)
{
    hfi_link_open(bed->link, hfi_now_ms());
}

void bed_open_up(struct bed *bed)
{
    unsigned ups = bed->ups;

    bed_open(bed);
    while (bed->ups == ups && bed->downs == bed->downs_seen)
        bed_drive(bed, 1000);
    if (bed->ups == ups)
        fail_msg("down instead of up: %s: %s", hf_status_name(bed->status), bed->why);
}

void bed_open_to(struct bed *bed, const struct fake *fake, bool subscriber, const char *rest)
{
    char url[200];

    snprintf(url, sizeof url, "redis://127.0.0.1:%u?connect_timeout=1m%s", fake_port(fake), rest);
    bed_init(bed, url, subscriber);
    bed_open_up(bed);
}

void bed_open_down(struct bed *bed, hf_status status, const char *why_has)
{
    unsigned ups = bed->ups;

    bed_open(bed);
    bed_until_down(bed);
    assert_int_equal(bed->ups, ups);
    if (bed->status != status || !strstr(bed->why, why_has))
        fail_msg("%s \"%s\" instead of %s \"...%s...\"", hf_status_name(bed->status), bed->why,
                 hf_status_name(status), why_has);
}

void bed_drive(struct bed *bed, int ms)
{
    hfi_reactor_turn(&bed->reactor, hfi_now_ms() + ms);
}

void bed_until_down(struct bed *bed)
{
    int64_t limit_ms = hfi_now_ms() + BED_LIMIT_MS;

    while (bed->downs == bed->downs_seen) {
        assert_true(hfi_now_ms() < limit_ms);
        bed_drive(bed, 1000);
    }
    bed->downs_seen = bed->downs;
}

void bed_until_answered(struct bed *bed, const struct call *call)
{
    int64_t limit_ms = hfi_now_ms() + BED_LIMIT_MS;

    while (call->answers == 0) {
        assert_true(hfi_now_ms() < limit_ms);
        bed_drive(bed, 1000);
    }
    assert_int_equal(call->answers, 1);
}

void bed_settle(struct bed *bed)
{
    for (int i = 0; i < 10; i++)
        bed_drive(bed, 0);
}

void call_note(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe)
{
    struct call *call = (struct call *)sent;

    call->answers++;
    call->none = reply == NULL;
    call->maybe = maybe;
    if (!reply)
        return;
    call->type = reply->type;
    call->integer = reply->integer;
    call->count = reply->count;
    if (reply->text) {
        assert_int_equal(reply->text[reply->len], 0);
        snprintf(call->text, sizeof call->text, "%s", reply->text);
    }
}

void call_send(struct bed *bed, struct call *call, const char *const *words)
{
    struct hfi_command command;

    *call = (struct call){ .sent.answered = call_note };
    hfi_command_init(&command);
    for (; *words; words++)
        hfi_command_add_text(&command, *words);
    hfi_link_send(bed->link, &command, &call->sent);
    hfi_command_done(&command);
    hfi_link_flush(bed->link);
}

void call_subscribe(struct bed *bed, struct call *call, const char *channel)
{
    *call = (struct call){ .sent.answered = call_note };
    hfi_link_subscribe(bed->link, channel, strlen(channel), &call->sent);
    hfi_link_flush(bed->link);
}
