/* SPDX-License-Identifier: MIT */
/* What the ZooKeeper engine decides without a server: names, order, holders, validity; and URLs. */
#include "unit.h"

#include "core/conf.h"
#include "engine/zookeeper/conf.h"
#include "engine/zookeeper/node_data.h"
#include "engine/zookeeper/queue.h"
#include "engine/zookeeper/validity.h"
#include "util/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ------------------------------------------------------------------------------- */

static void names_come_back(void **state)
{
    unsigned char name[HF_NAME_MAX], back[HF_NAME_MAX];
    char text[ZK_NAME_MAX + 1];

    (void)state;
    for (unsigned byte = 0; byte < 256; byte++)
        for (uint32_t len = 1; len < 4; len++) {
            memset(name, (int)byte, len);
            zk_escape(name, len, text);
            assert_null(strchr(text, '/'));
            assert_true(text[0] != '.');
            for (const char *c = text; *c; c++)
                assert_true(*c > ' ' && *c < 127);
            assert_int_equal(zk_unescape(text, back), len);
            assert_memory_equal(back, name, len);
        }
    memset(name, 0xff, sizeof name);
    zk_escape(name, sizeof name, text);
    assert_int_equal(strlen(text), ZK_NAME_MAX);
    assert_int_equal(zk_unescape(text, back), HF_NAME_MAX);
    zk_escape((const unsigned char *)"..", 2, text);
    assert_string_equal(text, "%2E.");
}

/* A name is written in one way only; what others put there is not taken for one. */
static void foreign_names(void **state)
{
    static const char *const bad[] = { "",   "%",   "%4",  "%2f", "%61",      "a b",    ".",
                                       ".a", "a/b", "%GG", "a%",  "\xc3\xa4", "%2Ex%2E" };
    unsigned char name[HF_NAME_MAX];
    char text[HF_NAME_MAX + 2];

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(zk_unescape(bad[i], name), 0);
    memset(text, 'a', sizeof text);
    text[HF_NAME_MAX + 1] = 0;
    assert_int_equal(zk_unescape(text, name), 0);
}

static void nodes(void **state)
{
    static const char *const bad[] = {
        "",
        "m",
        "lock-0000000001",
        "m-00000001-00000001-0123456789abcdef0123456789abcdef-",
        "m-00000001-00000001-0123456789abcdef0123456789abcdef-12x",
        "m-00000001-00000002-0123456789abcdef0123456789abcdef-0000000001",
        "m-00000001-00000000-0123456789abcdef0123456789abcdef-0000000001",
        "x-00000001-00000001-0123456789abcdef0123456789abcdef-0000000001",
        "m-00000001-00000001-0123456789abcdef0123456789abcdef-9999999999",
        "m-00000001-00000001-0123456789abcdef0123456789abcdeg-0000000001"
    };
    struct hfi_claim claim = { .mode = HFI_MODE_SEMAPHORE, .capacity = 0x3b9aca00, .permits = 7 };
    struct zk_member member;
    char text[ZK_NODE_MAX];

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(zk_node_parse(bad[i], &member));
    memset(claim.owner, 0xa5, sizeof claim.owner);
    zk_node_prefix(&claim, text);
    assert_int_equal(strlen(text), ZK_PREFIX_LEN);
    strcat(text, "-2147483648");
    assert_true(zk_node_parse(text, &member));
    assert_int_equal(member.demand.mode, HFI_MODE_SEMAPHORE);
    assert_int_equal(member.demand.capacity, claim.capacity);
    assert_int_equal(member.demand.permits, 7);
    assert_memory_equal(member.owner, claim.owner, HFI_OWNER_LEN);
    assert_int_equal(member.sequence, INT32_MIN);
}

/* ---- what a node holds --------------------------------------------------------------------- */

/* What an older version reads: the number up to the first other byte, and the label up to a NUL. */
static void data_comes_back(void **state)
{
    struct zk_node_data data = { .timeout_ms = 10000, .label = "a label" }, back;
    char bytes[ZK_DATA_MAX];
    int len = zk_node_data_write(&data, bytes);

    (void)state;
    assert_int_equal(len, strlen("1 10000\na label")); /* without flags it is as it always was */
    assert_memory_equal(bytes, "1 10000\na label", (size_t)len);
    assert_true(zk_node_data_read(bytes, len, &back));
    assert_false(back.tries || back.watched || back.asked);
    data.tries = data.watched = data.asked = true;
    memset(data.label, 'l', HF_LABEL_MAX);
    memset(data.text, 't', HF_LABEL_MAX);
    len = zk_node_data_write(&data, bytes);
    assert_true(len > 2 * HF_LABEL_MAX && len < ZK_DATA_MAX);
    assert_memory_equal(bytes, "1 10000tw\nlll", 13);
    assert_true(zk_node_data_read(bytes, len, &back));
    assert_true(back.tries && back.watched && back.asked && back.timeout_ms == 10000);
    assert_string_equal(back.label, data.label);
    assert_string_equal(back.text, data.text);
}

static void foreign_data(void **state)
{
    static const char *const bad[] = { "", "1", "1 ", "1 10000", "2 10000\nx", "x\n", "\n1 5" };
    struct zk_node_data data;
    char large[4 * ZK_DATA_MAX];

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(zk_node_data_read(bad[i], (int)strlen(bad[i]), &data));
    assert_false(zk_node_data_read(NULL, -1, &data));
    assert_false(zk_node_data_read("1 5\0\nx", 7, &data)); /* the line must end before the text */
    assert_true(zk_node_data_read("1 99999999999999999999\n", 23, &data));
    assert_true(data.timeout_ms == HF_DURATION_MAX_MS && !data.label[0]);
    assert_true(zk_node_data_read("1 -5\nx\0", 7, &data)); /* asked without a word */
    assert_true(data.timeout_ms == 0 && data.asked && !data.text[0]);
    memset(large, 'x', sizeof large);
    memcpy(large, "1 7w\n", 5);
    assert_true(zk_node_data_read(large, sizeof large, &data));
    assert_int_equal(strlen(data.label), HF_LABEL_MAX);
    assert_true(data.watched && !data.asked);
}

/* ---- who holds --------------------------------------------------------------------------------- */

/* "m", "r" (reads), "w" (writes), "2of3": in the order of their sequences. */
static struct zk_member member(const char *what, int number, int32_t sequence)
{
    static char names[16][ZK_NODE_MAX];
    struct zk_member one = { .demand = { HFI_MODE_MUTEX, 1, 1 } };

    if (*what == 'r' || *what == 'w') {
        one.demand.mode = HFI_MODE_RW;
        one.demand.capacity = HFI_RW_MAX;
        one.demand.permits = *what == 'w' ? HFI_RW_MAX : 1;
    } else if (*what != 'm') {
        one.demand.mode = HFI_MODE_SEMAPHORE;
        one.demand.permits = (uint32_t)(what[0] - '0');
        one.demand.capacity = (uint32_t)(what[3] - '0');
    }
    one.owner[0] = (unsigned char)number;
    one.sequence = sequence;
    snprintf(names[number], sizeof names[0], "%d", number);
    one.node = names[number];
    return one;
}

static struct zk_position at(const char *const *queue, size_t count, int who, int32_t first)
{
    struct zk_member members[16];
    unsigned char owner[HFI_OWNER_LEN] = { (unsigned char)who };

    for (size_t i = 0; i < count; i++) /* the server lists them in any order */
        members[count - 1 - i] = member(queue[i], (int)i, (int32_t)((uint32_t)first + (uint32_t)i));
    return zk_queue_find(members, count, owner);
}

#define QUEUE(...) \
    (const char *const[]){ __VA_ARGS__ }, COUNT(((const char *const[]){ __VA_ARGS__ }))

static void check(struct zk_position position, enum zk_answer answer, const char *node)
{
    assert_int_equal(position.answer, answer);
    if (node)
        assert_string_equal(position.node, node);
    else
        assert_null(position.node);
}

static void mutexes(void **state)
{
    (void)state;
    check(at(QUEUE("m"), 0, 0), ZK_HOLDS, NULL);
    check(at(QUEUE("m", "m"), 0, 0), ZK_HOLDS, NULL);
    check(at(QUEUE("m", "m"), 1, 0), ZK_WAITS, "0");
    check(at(QUEUE("m", "m", "m"), 2, 0), ZK_WAITS, "0"); /* then 1 is the only one: see queue.c */
    check(at(QUEUE("m", "m", "m", "m"), 3, 0), ZK_WAITS, "1");
    assert_int_equal(at(QUEUE("m", "m", "m"), 2, 0).watch, ZK_WATCH_BLOCKER);
    assert_int_equal(at(QUEUE("m", "m"), 1, 0).watch, ZK_WATCH_LAST);
    check(at(QUEUE("m", "m"), 7, 0), ZK_ABSENT, NULL);
    /* Over the end of the sequence. */
    check(at(QUEUE("m", "m", "m"), 0, INT32_MAX - 1), ZK_HOLDS, NULL);
    check(at(QUEUE("m", "m", "m"), 2, INT32_MAX - 1), ZK_WAITS, "0");
}

static void readers_and_writers(void **state)
{
    (void)state;
    check(at(QUEUE("r", "r", "r"), 2, 0), ZK_HOLDS, NULL);
    check(at(QUEUE("r", "w"), 1, 0), ZK_WAITS, "0");
    check(at(QUEUE("r", "r", "w"), 2, 0), ZK_WAITS, "0");
    check(at(QUEUE("r", "w", "r", "r"), 3, 0), ZK_WAITS, "1"); /* the writer, not the reader */
    assert_int_equal(at(QUEUE("r", "w", "r", "r"), 3, 0).watch, ZK_WATCH_LAST);
    check(at(QUEUE("w", "w", "r"), 2, 0), ZK_WAITS, "0");
    assert_int_equal(at(QUEUE("w", "w", "r"), 2, 0).watch, ZK_WATCH_BLOCKER);
}

static void semaphores(void **state)
{
    (void)state;
    check(at(QUEUE("1of2", "1of2"), 1, 0), ZK_HOLDS, NULL);
    check(at(QUEUE("1of2", "1of2", "1of2"), 2, 0), ZK_WAITS, NULL); /* the first waiter */
    check(at(QUEUE("1of2", "1of2", "1of2", "1of2"), 3, 0), ZK_WAITS, "2");
    check(at(QUEUE("1of3", "3of3", "1of3"), 2, 0), ZK_WAITS, "1"); /* nobody overtakes */
    check(at(QUEUE("1of3", "3of3", "1of3"), 1, 0), ZK_WAITS, "0");
    assert_true(at(QUEUE("1of2", "1of2", "1of2"), 1, 0).tells);
    assert_false(at(QUEUE("1of2", "1of2"), 1, 0).tells);
    assert_false(at(QUEUE("m", "m"), 0, 0).tells);
    assert_int_equal(at(QUEUE("1of2", "1of2", "1of2"), 2, 0).watch, ZK_WATCH_LIST);
    assert_int_equal(at(QUEUE("1of2", "1of2", "1of2", "1of2"), 3, 0).watch, ZK_WATCH_WAITER);
    /* Two that can never hold together: the other must leave first, and then reading the queue
     * finds the waiters behind us. */
    check(at(QUEUE("1of5", "4of5", "3of5", "1of5"), 2, 0), ZK_WAITS, "1");
    assert_int_equal(at(QUEUE("1of5", "4of5", "3of5", "1of5"), 2, 0).watch, ZK_WATCH_BLOCKER);
}

static void other_kinds(void **state)
{
    (void)state;
    check(at(QUEUE("m", "1of2"), 1, 0), ZK_MISMATCH, "0");
    assert_int_equal(at(QUEUE("1of2", "1of3"), 1, 0).answer, ZK_MISMATCH);
    assert_int_equal(at(QUEUE("m", "r"), 1, 0).answer, ZK_MISMATCH);
    /* Behind one of another kind nobody holds, although the first is of ours and there is room. */
    assert_int_equal(at(QUEUE("1of2", "m", "1of2"), 2, 0).answer, ZK_WAITS);
    assert_int_equal(at(QUEUE("r", "m", "r"), 2, 0).answer, ZK_WAITS);
    assert_string_equal(at(QUEUE("r", "m", "r"), 2, 0).node, "1");
}

/* The waiter that the holder `who` finds, of those later than `after` (-1: of all); "": none. */
static const char *behind(const char *const *queue, size_t count, int who, int32_t first, int after,
                          bool *ret_stays)
{
    struct zk_member members[16];
    unsigned char owner[HFI_OWNER_LEN] = { (unsigned char)who };
    int32_t later = (int32_t)((uint32_t)first + (uint32_t)after);
    struct zk_waiter waiter;

    for (size_t i = 0; i < count; i++)
        members[count - 1 - i] = member(queue[i], (int)i, (int32_t)((uint32_t)first + (uint32_t)i));
    if (!zk_queue_waiter(members, count, owner, after < 0 ? NULL : &later, &waiter))
        return "";
    assert_int_equal(waiter.sequence, (int32_t)((uint32_t)first + (uint32_t)atoi(waiter.node)));
    *ret_stays = waiter.stays;
    return waiter.node;
}

static void first_waiters(void **state)
{
    bool stays = false;

    (void)state;
    assert_string_equal(behind(QUEUE("m"), 0, 0, -1, &stays), "");
    assert_string_equal(behind(QUEUE("m", "m", "m"), 0, 0, -1, &stays), "1");
    assert_true(stays);
    assert_string_equal(behind(QUEUE("m", "m", "m"), 0, INT32_MAX, 1, &stays), "2");
    assert_string_equal(behind(QUEUE("m", "m", "m"), 0, INT32_MAX, 2, &stays), "");
    assert_string_equal(behind(QUEUE("m", "m"), 1, 0, -1, &stays), ""); /* it does not hold */
    assert_string_equal(behind(QUEUE("m", "m"), 7, 0, -1, &stays), "");
    assert_string_equal(behind(QUEUE("r", "r", "w", "r"), 0, 0, -1, &stays), "2");
    assert_true(stays);
    assert_string_equal(behind(QUEUE("1of3", "2of3", "2of3"), 0, 0, -1, &stays), "2");
    assert_false(stays); /* the other holder may make room */
    assert_string_equal(behind(QUEUE("1of3", "2of3", "2of3"), 1, 0, -1, &stays), "2");
    assert_true(stays);
    assert_true(at(QUEUE("m", "m"), 0, 0).wanted);
    assert_false(at(QUEUE("m"), 0, 0).wanted || at(QUEUE("m", "m"), 1, 0).wanted);
    assert_false(at(QUEUE("1of2", "1of2"), 0, 0).wanted);
}

static void too_far_apart(void **state)
{
    struct zk_member members[2] = { member("1of2", 0, 0), member("1of2", 1, 1 << 30) };
    unsigned char owner[HFI_OWNER_LEN] = { 1 };
    size_t holders;

    (void)state;
    assert_int_equal(zk_queue_find(members, 2, owner).answer, ZK_UNORDERED);
    assert_false(zk_queue_sort(members, 2, &holders));
    members[1].sequence--;
    assert_int_equal(zk_queue_find(members, 2, owner).answer, ZK_HOLDS);
}

/* A claim with two nodes, and another claim between them: ours is the one that we know, and it waits for the other claim. */
static void second_node_of_a_claim(void **state)
{
    static const char *const names[] = {
        "m-00000001-00000001-0a000000000000000000000000000000-0000000007",
        "m-00000001-00000001-0b000000000000000000000000000000-0000000008",
        "m-00000001-00000001-0a000000000000000000000000000000-0000000009",
    };
    struct zk_member members[COUNT(names)];
    struct zk_position position;
    char prefix[ZK_NODE_MAX];

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++)
        assert_true(zk_node_parse(names[i], &members[i]));
    assert_int_equal(zk_queue_twins(members, COUNT(names), names[2]), 2);
    assert_string_equal(members[2].node, names[0]);
    position = zk_queue_find(members, 2, members[2].owner);
    assert_int_equal(position.answer, ZK_WAITS);
    assert_string_equal(position.node, names[1]);

    /* The claim has gone: both are nobody's. */
    snprintf(prefix, sizeof prefix, "%.*s", ZK_PREFIX_LEN, names[0]);
    assert_int_equal(zk_queue_twins(members, COUNT(names), prefix), 1);
    assert_string_equal(members[0].node, names[1]);
}

/* ---- until when -------------------------------------------------------------------------------- */

static void validity_lags(void **state)
{
    struct zk_validity validity;

    (void)state;
    zk_validity_begin(&validity, 1000, 8000);
    assert_int_equal(zk_validity_until(&validity), 9000);
    zk_validity_confirm(&validity, 2000); /* nothing is before it: it says nothing new */
    assert_int_equal(zk_validity_until(&validity), 9000);
    zk_validity_confirm(&validity, 3999); /* less than a quarter of the timeout later */
    assert_int_equal(zk_validity_until(&validity), 9000);
    zk_validity_confirm(&validity, 4000);
    assert_int_equal(zk_validity_until(&validity), 10000);
    zk_validity_confirm(&validity, 1500); /* late, and out of order: nothing goes back */
    assert_int_equal(zk_validity_until(&validity), 10000);
    for (int64_t sent_ms = 4100; sent_ms < 100000; sent_ms += 100) {
        zk_validity_confirm(&validity, sent_ms);
        assert_true(zk_validity_until(&validity) <= sent_ms - 2000 + 8000);
        if (sent_ms > 7000) /* by then there is something to count from every now and then */
            assert_true(zk_validity_until(&validity) >= sent_ms - 2600 + 8000);
    }
    zk_validity_begin(&validity, 200000,
                      8000); /* connected to another server: what was, is not counted */
    zk_validity_confirm(&validity, 200001);
    assert_int_equal(zk_validity_until(&validity), 208000);
    assert_int_equal(zk_validity_left(&validity, 200000), 8000);
    assert_int_equal(zk_validity_left(&validity, 201000), 6990);
}

/* ---- URLs -------------------------------------------------------------------------------------- */

static hf_status parse(const char *text, struct zk_conf **ret_conf, hf_error *err)
{
    struct hfi_conf *conf = NULL;
    struct hfi_url url;
    hf_status status = hfi_url_parse(text, &url, err);

    if (status != HF_OK)
        return status;
    status = hfi_conf_read(&url, &zk_conf_type, &conf, err);
    if (status == HF_OK)
        status = zk_conf_finish((struct zk_conf *)conf, err);
    hfi_url_done(&url);
    if (status == HF_OK)
        *ret_conf = (struct zk_conf *)conf;
    else
        hfi_conf_free(conf);
    return status;
}

static void good_urls(void **state)
{
    struct zk_conf *conf = NULL;

    (void)state;
    assert_int_equal(parse("zk://a,b:2182,[::1]:7/x/y/?timeout=4s", &conf, NULL), HF_OK);
    assert_int_equal(conf->url.host_count, 3);
    assert_string_equal(conf->location, "zk://a:2181,b:2182,[::1]:7/x/y");
    assert_int_equal(conf->timeout_ms, 4000);
    assert_int_equal(conf->acl, ZK_ACL_OPEN);
    hfi_conf_free(conf);
    assert_int_equal(parse("zk://u:p%40%2F@h", &conf, NULL), HF_OK);
    assert_string_equal(conf->auth, "u:p@/");
    assert_string_equal(conf->root, "/holdfast");
    assert_int_equal(conf->acl, ZK_ACL_CREATOR);
    assert_null(strstr(conf->location, "p@"));
    hfi_conf_free(conf);
    assert_int_equal(parse("zk://u:p@h/?acl=read", &conf, NULL), HF_OK);
    assert_int_equal(conf->acl, ZK_ACL_READ);
    hfi_conf_free(conf);
}

static void bad_urls(void **state)
{
    static const char *const bad[][2] = {
        { "zk:h", "host" },
        { "zk://", "host" },
        { "zk://a,,b", "host" },
        { "zk://a b", "host" },
        { "zk://a:0", "port" },
        { "zk://a:65536", "port" },
        { "zk://a:x", "port" },
        { "zk://[::1", "host" },
        { "zk://[::1]x", "host" },
        { "zk://[a]", "host" },
        { "zk://user@h", "user" },
        { "zk://:pw@h", "user" },
        { "zk://u:p%4@h", "password" },
        { "zk://h/a//b", "path" },
        { "zk://h/a/../b", "path" },
        { "zk://h/a%20b", "path" },
        { "zk://h/zookeeper", "path" },
        { "zk://h/zookeeper/x", "path" },
        { "zk://h?timeout=1", "timeout" },
        { "zk://h?timeout=10ms", "timeout" },
        { "zk://h?acl=all", "acl" },
        { "zk://h?acl=creator", "acl" },
        { "zk://u:secret@h?acl=all", "acl" },
    };
    struct zk_conf *conf = NULL;
    hf_error err;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(parse(bad[i][0], &conf, &err), HF_CONFIG);
        assert_non_null(strstr(err.text, bad[i][1]));
        assert_null(strstr(err.text, "secret"));
        assert_null(conf);
    }
    assert_int_equal(parse("zk://h/zookeepers", &conf, NULL), HF_OK);
    hfi_conf_free(conf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_come_back),
        cmocka_unit_test(foreign_names),
        cmocka_unit_test(nodes),
        cmocka_unit_test(data_comes_back),
        cmocka_unit_test(foreign_data),
        cmocka_unit_test(mutexes),
        cmocka_unit_test(readers_and_writers),
        cmocka_unit_test(semaphores),
        cmocka_unit_test(other_kinds),
        cmocka_unit_test(first_waiters),
        cmocka_unit_test(too_far_apart),
        cmocka_unit_test(second_node_of_a_claim),
        cmocka_unit_test(validity_lags),
        cmocka_unit_test(good_urls),
        cmocka_unit_test(bad_urls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
