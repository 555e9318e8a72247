/* SPDX-License-Identifier: MIT */
/*
 * Commands as bytes on the wire. A command is built once into its own buffer and may be sent
 * again (after NOSCRIPT, MOVED, ASK) without being built again. A script call is kept as its script
 * and the arguments after it, so that only the head changes from EVALSHA to EVAL.
 */
#ifndef HFI_REDIS_COMMAND_H
#define HFI_REDIS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HFI_COMMAND_INLINE 512 /* most commands fit without the heap */

struct hfi_script {
    const char *name; /* "acquire": for people and tests */
    const char *text; /* NULL: a user's, known by its sha only */
    size_t len;
    char sha[41]; /* lower-case hex, made at build time */
};

/* The scripts whose text a server has been sent since we connected. */
#define HFI_SCRIPTS_MAX 32
struct hfi_script_set {
    const struct hfi_script *scripts[HFI_SCRIPTS_MAX];
};

struct hfi_command {
    const struct hfi_script *script; /* NULL: a plain command */
    bool whole;                      /* send the script's text (EVAL), not its sha */
    bool read_only;                  /* EVAL_RO, EVALSHA_RO */
    bool failed;                     /* out of memory while it was built */
    uint32_t argc;                   /* arguments in `bytes`, or in its tail after the script */
    uint32_t slot;                   /* cluster slot of its keys; HFI_SLOT_ANY */
    size_t len, room;
    char *bytes; /* formatted arguments: "$3\r\nGET\r\n..." without the leading "*N\r\n" */
    char in_place[HFI_COMMAND_INLINE];
};

#define HFI_SLOT_ANY 0xffffu

/* A plain command. hfi_command_done() in any case, also if it failed. */
void hfi_command_init(struct hfi_command *command);
/* A script call: EVALSHA sha key_count ... ; append the keys, then the arguments. script NULL: a plain command. */
void hfi_command_init_script(struct hfi_command *command, const struct hfi_script *script,
                             uint32_t key_count);
void hfi_command_done(struct hfi_command *command);
/* Before it is sent: choose EVAL if the server has not got the text of the script yet; from now on
 * it has. So NOSCRIPT is rare (SCRIPT FLUSH), and commands are executed in the order in which they
 * were sent. */
void hfi_command_choose_text(struct hfi_command *command, struct hfi_script_set *sent);

void hfi_command_add(struct hfi_command *command, const void *data, size_t len);
void hfi_command_add_text(struct hfi_command *command, const char *text);
void hfi_command_add_number(struct hfi_command *command, int64_t number);

/* Write the bytes that come before `bytes` on the wire into `ret_head` (which has room for them),
 * or its length only if ret_head is NULL. */
size_t hfi_command_head(const struct hfi_command *command, char *ret_head);

#endif
