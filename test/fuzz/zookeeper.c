/* SPDX-License-Identifier: MIT */
/* ZooKeeper: escaped names, names and contents of nodes, and which members of a queue hold. */
#include "fuzz.h"

#include "engine/zookeeper/node_data.h"
#include "engine/zookeeper/queue.h"

#define MEMBERS_MAX 40

static void name(const char *text)
{
    unsigned char bytes[HF_NAME_MAX];
    char escaped[ZK_NAME_MAX + 1];
    uint32_t len = zk_unescape(text, bytes);

    MUST(len <= HF_NAME_MAX);
    if (len == 0)
        return;
    zk_escape(bytes, len, escaped);
    MUST(strcmp(escaped, text) == 0); /* one name has one way to be written */
}

/* Whatever a node holds, what is read of it is written and read again as the same. */
static void content(struct fuzz_input in)
{
    struct zk_node_data data = { .asked = false }, back = { .asked = false };
    char bytes[ZK_DATA_MAX];

    if (!zk_node_data_read((const char *)in.at, (int)in.len, &data))
        return;
    MUST(zk_node_data_read(bytes, zk_node_data_write(&data, bytes), &back));
    MUST(back.tries == data.tries && back.watched == data.watched && back.asked == data.asked);
    MUST(back.timeout_ms == data.timeout_ms && strcmp(back.label, data.label) == 0 &&
         strcmp(back.text, data.text) == 0);
}

/* Lines are nodes; the first byte says which of them is ours. */
static void line(struct fuzz_input in)
{
    struct zk_member members[MEMBERS_MAX];
    unsigned char owner[HFI_OWNER_LEN] = { 0 };
    uint8_t ours = fuzz_byte(&in);
    char *text = fuzz_text(in.at, in.len), *rest = text, *node;
    struct zk_position position;
    struct zk_waiter waiter;
    size_t count = 0, holders = 0;

    while (count < MEMBERS_MAX && (node = strsep(&rest, "\n"))) {
        if (!zk_node_parse(node, &members[count]))
            continue;
        MUST(members[count].demand.permits > 0 &&
             members[count].demand.permits <= members[count].demand.capacity);
        count++;
    }
    if (count > 0)
        memcpy(owner, members[ours % count].owner, sizeof owner);
    position = zk_queue_find(members, count, owner);
    MUST(count > 0 || position.answer == ZK_ABSENT);
    MUST((position.watch != ZK_WATCH_NONE) ==
         (position.answer == ZK_WAITS || position.answer == ZK_MISMATCH));
    MUST((position.node != NULL) ==
         (position.watch != ZK_WATCH_NONE && position.watch != ZK_WATCH_LIST));
    if (zk_queue_sort(members, count, &holders))
        MUST(holders <= count);
    if (zk_queue_waiter(members, count, owner, NULL, &waiter))
        MUST(position.answer == ZK_HOLDS && position.wanted && waiter.node);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input in = { data, len };
    char *text;

    if (fuzz_byte(&in) & 1) {
        line(in);
        return 0;
    }
    content(in);
    text = fuzz_text(in.at, in.len);
    name(text);
    free(text);
    return 0;
}
