/* SPDX-License-Identifier: MIT */
/*
 * The native half of the Java binding. Only numbers and byte arrays cross the border: `in` reads what Args.java wrote,
 * `out` writes what Reader.java reads. So no Java object is built or taken apart here.
 */
#ifndef HOLDFAST_JAVA_BINDING_H
#define HOLDFAST_JAVA_BINDING_H

#include <holdfast/holdfast.h>
#include <holdfast/primitives.h>

#include <jni.h>

/* ---- reading and writing: blob.c -------------------------------------------------------- */

/* Numbers have 8 bytes in this machine's order. Bytes have their length first (-1: NULL) and a NUL behind them that the
 * length does not count. */
struct in {
    const unsigned char *at, *end;
    unsigned char *copy; /* owned; NULL: the caller's memory is used */
};

/* false: out of memory, with a Java exception pending. `room` is used if it is large enough. */
bool in_open(struct in *in, JNIEnv *env, jbyteArray array, unsigned char *room, size_t room_len);
void in_close(struct in *in);
int64_t in_number(struct in *in);
const void *in_bytes(struct in *in, size_t *ret_len);
const char *in_text(struct in *in);

struct out {
    unsigned char *bytes;
    size_t len, room;
    bool failed; /* out of memory: what follows is ignored */
};

void out_number(struct out *out, int64_t number);
void out_bytes(struct out *out, const void *bytes, size_t len);
void out_text(struct out *out, const char *text);
/* The array, and an empty `out`. NULL: out of memory, and no exception is pending. */
jbyteArray out_close(struct out *out, JNIEnv *env);

/* ---- requests and results --------------------------------------------------------------- */

/* An asynchronous call that is under way; freed after `done`. */
struct call {
    jlong id;           /* of the Java object */
    void *update_bytes; /* what the function of a cell update wants to write */
};

/* A handle of the library as Java keeps it. Handles are not pointers to memory. */
static inline void *handle_of(jlong number)
{
    return (void *)(intptr_t)number;
}

/* What Request.java has encoded: all but how long to wait, the scope and the sink of its events. */
void read_wanted(struct in *in, hf_acquire_request *ret_request);
void set_sink(hf_acquire_request *request, int64_t sink);
void write_result(struct out *out, const hf_result *result);
void write_engine(struct out *out, const hf_engine_info *engine);
void write_store_info(struct out *out, const hf_store_info *info);
void write_lease_info(struct out *out, const hf_lease_info *info);
/* What a result owns and Java could not be given. */
void give_back(const hf_result *result);
/* What a result owns and Java has its copy of. */
void free_result(const hf_result *result);

/* ---- calls: call.c ---------------------------------------------------------------------- */

/* HF_INVALID: no such number. */
hf_status begin_call(int number, void *handle, struct in *in, struct call *call, hf_op **ret_op,
                     hf_error *err);

/* ---- numbers: stats.c ------------------------------------------------------------------- */

/* HF_OK: `out` has them. */
hf_status stats_get(hf_store *store, struct out *out);
jlong stats_bound(JNIEnv *env, jclass self, jint bucket);
jlong stats_quantile(JNIEnv *env, jclass self, jlongArray buckets, jdouble share);

/* ---- callbacks into Java: binding.c ----------------------------------------------------- */

void on_done(const hf_result *result, void *arg);
void on_event(hf_lease *lease, hf_event event, const char *text, void *arg);
hf_status on_update(const hf_cell *old, hf_cell_change *change, void *arg);

#endif
