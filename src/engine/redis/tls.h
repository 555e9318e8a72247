/* SPDX-License-Identifier: MIT */
/*
 * TLS between two buffers: it never touches a socket. Bytes that came are fed in, bytes to be sent
 * are taken out; the link does the rest, for plain text and TLS alike. With the link's lock held.
 */
#ifndef HFI_REDIS_TLS_H
#define HFI_REDIS_TLS_H

#include "engine/redis/conf.h"
#include "util/buffer.h"

struct hfi_tls;

enum hfi_tls_result {
    HFI_TLS_DONE,  /* as asked */
    HFI_TLS_MORE,  /* bytes of the peer are needed first */
    HFI_TLS_ENDED, /* the peer said goodbye */
    HFI_TLS_FAILED /* and hfi_tls_why() says why */
};

/* A context from the tls_ settings of conf, into conf->tls_context. HF_CONFIG, HF_DENIED (a file
 * cannot be read), HF_NO_MEMORY. */
hf_status hfi_tls_context_new(struct hfi_redis_conf *conf, hf_error *err);
void hfi_tls_context_free(void *context); /* NULL is fine */

/* For one connection to `address`. NULL: out of memory. */
struct hfi_tls *hfi_tls_new(const struct hfi_redis_conf *conf, const struct hfi_address *address);
void hfi_tls_free(struct hfi_tls *tls);

/* What came from the socket. false: out of memory. */
bool hfi_tls_feed(struct hfi_tls *tls, const void *bytes, size_t len);
enum hfi_tls_result hfi_tls_handshake(struct hfi_tls *tls);
/* DONE: *ret_len bytes, at least one. */
enum hfi_tls_result hfi_tls_read(struct hfi_tls *tls, void *bytes, size_t size, size_t *ret_len);
enum hfi_tls_result hfi_tls_write(struct hfi_tls *tls, const void *bytes, size_t len);
/* Move what is to be sent to the end of `wire`. false: out of memory, or beyond its bound. */
bool hfi_tls_drain(struct hfi_tls *tls, struct hfi_buffer *wire);
/* Say goodbye: the last bytes are then to be drained. */
void hfi_tls_goodbye(struct hfi_tls *tls);
const char *hfi_tls_why(const struct hfi_tls *tls);
/* It failed because one of the two does not want the other: trying again will not help. */
bool hfi_tls_refused(const struct hfi_tls *tls);

#endif
