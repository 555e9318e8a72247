/* SPDX-License-Identifier: MIT */
/* See path.h. */
#include "engine/zookeeper/path.h"

#include "util/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char modes[] = "mrs"; /* by enum hfi_mode */

static bool is_plain(unsigned char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || (c == '.' && !first);
}

void zk_escape(const unsigned char *name, uint32_t len, char *ret_text)
{
    static const char digits[] = "0123456789ABCDEF";

    for (uint32_t i = 0; i < len; i++) {
        if (is_plain(name[i], i == 0)) {
            *ret_text++ = (char)name[i];
            continue;
        }
        *ret_text++ = '%';
        *ret_text++ = digits[name[i] >> 4];
        *ret_text++ = digits[name[i] & 15];
    }
    *ret_text = 0;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

uint32_t zk_unescape(const char *text, unsigned char ret_name[HF_NAME_MAX])
{
    uint32_t len = 0;

    for (const char *c = text; *c; c++) {
        int byte = (unsigned char)*c;

        if (*c == '%') {
            int high = digit(c[1]), low = high < 0 ? -1 : digit(c[2]);

            if (low < 0 || is_plain((unsigned char)(16 * high + low), len == 0))
                return 0;
            byte = 16 * high + low;
            c += 2;
        } else if (!is_plain((unsigned char)*c, len == 0)) {
            return 0; /* a name has exactly one spelling: otherwise one name could have two nodes */
        }
        if (len == HF_NAME_MAX)
            return 0;
        ret_name[len++] = (unsigned char)byte;
    }
    return len;
}

void zk_node_prefix(const struct hfi_claim *claim, char ret_text[ZK_PREFIX_LEN + 1])
{
    char owner[2 * HFI_OWNER_LEN + 1];

    hfi_hex(claim->owner, HFI_OWNER_LEN, owner);
    snprintf(ret_text, ZK_PREFIX_LEN + 1, "%c-%08x-%08x-%s-", modes[claim->mode], claim->capacity,
             claim->permits, owner);
}

/* Eight hex digits and a '-'. */
static bool parse_number(const char *text, uint32_t *ret_number)
{
    unsigned char bytes[4];

    if (text[8] != '-' || !hfi_unhex(text, 8, bytes, sizeof bytes))
        return false;
    *ret_number = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
                  (uint32_t)bytes[3];
    return true;
}

bool zk_node_parse(const char *node, struct zk_member *ret_member)
{
    const char *mode = node[0] ? strchr(modes, node[0]) : NULL;
    const char *sequence = node + ZK_PREFIX_LEN;
    long number;
    char *end;

    if (!mode || strlen(node) <= ZK_PREFIX_LEN || strlen(node) >= ZK_NODE_MAX || node[1] != '-' ||
        !parse_number(node + 2, &ret_member->demand.capacity) ||
        !parse_number(node + 11, &ret_member->demand.permits) || node[ZK_PREFIX_LEN - 1] != '-' ||
        !hfi_unhex(node + 20, (size_t)2 * HFI_OWNER_LEN, ret_member->owner, HFI_OWNER_LEN))
        return false;
    errno = 0;
    number = strtol(sequence, &end, 10);
    if (*end || end == sequence || errno || number < INT32_MIN || number > INT32_MAX)
        return false;
    if (ret_member->demand.permits == 0 || ret_member->demand.permits > ret_member->demand.capacity)
        return false;
    ret_member->demand.mode = (enum hfi_mode)(mode - modes);
    ret_member->sequence = (int32_t)number;
    ret_member->node = node;
    return true;
}
