/* SPDX-License-Identifier: MIT */
/* See node_data.h. */
#include "engine/zookeeper/node_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int zk_node_data_write(const struct zk_node_data *data, char ret_bytes[ZK_DATA_MAX])
{
    int len = snprintf(ret_bytes, ZK_DATA_MAX, "1 %lld%s%s\n%s", (long long)data->timeout_ms,
                       data->tries ? "t" : "", data->watched ? "w" : "", data->label);

    if (data->asked) /* its NUL is the separator */
        len += 1 + snprintf(ret_bytes + len + 1, (size_t)(ZK_DATA_MAX - len - 1), "%s", data->text);
    return len;
}

bool zk_node_data_read(const char *bytes, int len, struct zk_node_data *ret_data)
{
    struct zk_node_data data = { .asked = false };
    char room[ZK_DATA_MAX], *flags, *label;
    size_t kept = len <= 0 || !bytes ? 0 : (size_t)len;
    size_t first;

    if (kept >= sizeof room)
        kept = sizeof room - 1;
    if (kept > 0)
        memcpy(room, bytes, kept);
    room[kept] = 0;
    first = strlen(room);
    label = strchr(room, '\n');
    if (strncmp(room, "1 ", 2) != 0 || !label)
        return false;
    *label++ = 0;
    data.timeout_ms = hfi_told_ms(strtoll(room + 2, &flags, 10));
    data.tries = strchr(flags, 't') != NULL;
    data.watched = strchr(flags, 'w') != NULL;
    snprintf(data.label, sizeof data.label, "%s", label);
    data.asked = first < kept;
    if (data.asked)
        snprintf(data.text, sizeof data.text, "%s", room + first + 1);
    *ret_data = data;
    return true;
}
