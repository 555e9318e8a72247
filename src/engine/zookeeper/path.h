/* SPDX-License-Identifier: MIT */
/*
 * Names in paths, and what a node's name says. Pure.
 *
 *   ROOT/locks/<name>/<mode>-<capacity>-<permits>-<owner>-<sequence>
 *   ROOT/cells/<name>/<mark>
 *
 * <name>: letters, digits, '-' and '_' as they are, '.' too unless it is the first; every other
 * byte as %XX (upper case). <mode>: m, r or s; capacity and permits in 8, owner in 32 hex digits;
 * the sequence is the server's. So one list of children gives all claims, their order, and the
 * permits of each, without reading a single node.
 */
#ifndef ZK_PATH_H
#define ZK_PATH_H

#include "engine/kit/position.h"

#define ZK_NAME_MAX   (3 * HF_NAME_MAX)         /* escaped */
#define ZK_NODE_MAX   (2 + 9 + 9 + 33 + 11 + 1) /* with its NUL */
#define ZK_PREFIX_LEN (2 + 9 + 9 + 33)          /* of a node's name: all but the sequence */
#define ZK_PATH_MAX   (512 + 8 + ZK_NAME_MAX + 1 + ZK_NODE_MAX)

/* Escape `len` bytes; `ret_text` has room for ZK_NAME_MAX + 1. */
void zk_escape(const unsigned char *name, uint32_t len, char *ret_text);
/* The name of an escaped one; 0: it is none of ours. */
uint32_t zk_unescape(const char *text, unsigned char ret_name[HF_NAME_MAX]);

/* A claim, as the name of its node has it. */
struct zk_member {
    struct hfi_demand demand;
    unsigned char owner[HFI_OWNER_LEN];
    int32_t sequence;
    const char *node; /* as given */
};

/* "m-00000001-00000001-<owner>-": the server appends the sequence. */
void zk_node_prefix(const struct hfi_claim *claim, char ret_text[ZK_PREFIX_LEN + 1]);
/* false: not a node of ours. */
bool zk_node_parse(const char *node, struct zk_member *ret_member);

#endif
