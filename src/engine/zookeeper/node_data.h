/* SPDX-License-Identifier: MIT */
/*
 * What a claim's node holds: "1 <session timeout><flags>\n<label>", and then, after a NUL byte, the text of the last ASK. Pure.
 *
 * The flags are letters. 't': it does not wait, and leaves the queue at once if it does not hold. 'w': its holder is
 * WATCHED, and reads what others write into its node. A version without flags and texts reads the same timeout and label.
 */
#ifndef ZK_NODE_DATA_H
#define ZK_NODE_DATA_H

#include "engine/engine.h"

#define ZK_DATA_MAX (64 + HF_LABEL_MAX + 1 + HF_LABEL_MAX + 1)

struct zk_node_data {
    int64_t timeout_ms;
    bool tries, watched, asked;
    char label[HF_LABEL_MAX + 1];
    char text[HF_LABEL_MAX + 1]; /* if it was asked */
};

/* Returns the length. */
int zk_node_data_write(const struct zk_node_data *data, char ret_bytes[ZK_DATA_MAX]);
/* false: it is not of this form, and nothing is set. len < 0: there are no bytes. */
bool zk_node_data_read(const char *bytes, int len, struct zk_node_data *ret_data);

#endif
