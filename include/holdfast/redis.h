/* SPDX-License-Identifier: MIT */
/*
 * Holdfast: what only Redis (and a server that speaks its protocol) can do: Lua scripts. The conventions of holdfast.h
 * apply.
 */
#ifndef HOLDFAST_REDIS_H
#define HOLDFAST_REDIS_H

#include <holdfast/holdfast.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- scripts ----------------------------------------------------------------- */

#define HF_SCRIPT_MAX          (16 << 20) /* bytes of a script with its keys and arguments */
#define HF_SCRIPT_KILL_WAIT_MS 10000

typedef struct hf_script_request {
    size_t size;
    const char *text; /* Lua. text_len 0: it ends with a NUL */
    size_t text_len;
    const char *const *keys; /* KEYS[1], ... key_lens NULL: each ends with a NUL */
    const size_t *key_lens;
    size_t key_count;
    const char *const *args; /* ARGV[1], ... likewise */
    const size_t *arg_lens;
    size_t arg_count;
    uint64_t reserved[4];
} hf_script_request;
/* clang-format off */
#define HF_SCRIPT_REQUEST_INIT { .size = sizeof(hf_script_request) }
/* clang-format on */

typedef struct hf_value hf_value;
typedef enum hf_value_kind {
    HF_VALUE_KIND_NIL,
    HF_VALUE_KIND_INTEGER,
    HF_VALUE_KIND_BYTES, /* any bytes, with a NUL behind them */
    HF_VALUE_KIND_STATE, /* a status reply: "OK" */
    HF_VALUE_KIND_ERROR, /* an error inside a list: what redis.pcall() returned */
    HF_VALUE_KIND_LIST
} hf_value_kind;

/*
 * Run a Lua script on the server, in one step for everybody else (HF_CAP_SCRIPTS:
 * Redis). It is sent by its SHA-1, and whole if the server does not know it. *ret_value
 * (may be NULL) is what it returned, to be freed by hf_value_free(). Keys are taken as they are,
 * without the store's prefix; in a cluster they must be of one slot, which decides who
 * runs it. Lists may be seven deep.
 *
 * HF_INVALID: the script is at fault, and the text is the server's: it does not compile
 * (nothing was done), or it raised an error, or returned one: what it had written by then
 * stays written. Also for keys of several slots (nothing was done). HF_CANCELLED: somebody
 * killed it; it had written nothing. HF_UNAVAILABLE: it did not run; "BUSY" in the text: because another
 * script runs for longer than the server's busy-reply-threshold. Redis does not end that one:
 * it waits for it and answers BUSY meanwhile; hf_script_kill() can. HF_DENIED, HF_FULL: refused, it did
 * not run. HF_UNKNOWN: the answer was lost or did not come in time (op_timeout); it
 * may have run, may run now, and is never sent twice.
 */
HF_API hf_status hf_script_run(hf_store *store, const hf_script_request *script,
                               hf_value **ret_value, hf_error *err);

/* Does the server (in a cluster: every master) know this script? `text` is the script, or its SHA-1
 * in 40 hex digits; len 0: it ends with a NUL. */
HF_API hf_status hf_script_exists(hf_store *store, const char *text, size_t len, int *ret_exists,
                                  hf_error *err);
/* Let the servers forget all scripts, of everybody. What needs one sends it again. */
HF_API hf_status hf_script_flush(hf_store *store, hf_error *err);

/*
 * End the script that runs now, whoever runs it, over a new connection: those that exist may be stuck
 * behind it. A server answers nobody before its busy-reply-threshold (5 s) is over; wait at
 * most wait_ms for that, 0: HF_SCRIPT_KILL_WAIT_MS. A store cannot be opened meanwhile: hf_manage() with
 * "script-kill" needs none.
 *
 * HF_NOT_FOUND: none runs. HF_IN_USE: it has written already, and Redis does not kill it
 * then, for half of its work would stay: wait for it, or shut the server down without saving.
 */
HF_API hf_status hf_script_kill(hf_store *store, int64_t wait_ms, hf_error *err);

/* Look at a value; NULL is HF_VALUE_KIND_NIL, and what a value has not is 0 or NULL. Bytes and items live as
 * long as the value that hf_script_run() returned. */
HF_API hf_value_kind hf_value_get_kind(const hf_value *value);
HF_API int64_t hf_value_get_integer(const hf_value *value);
HF_API const char *hf_value_get_bytes(const hf_value *value,
                                      size_t *ret_len);  /* ret_len may be NULL */
HF_API size_t hf_value_get_count(const hf_value *value); /* of a list */
HF_API const hf_value *hf_value_get_item(const hf_value *list, size_t index);
HF_API void hf_value_free(hf_value *value); /* what hf_script_run() returned; NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
