/* SPDX-License-Identifier: MIT */
/*
 * TLS between two buffers: it never touches a socket. Received bytes are fed in, bytes to be sent
 * are taken out; the stream does the rest, for plain text and TLS alike. With the stream's lock
 * held.
 *
 * A stream reaches it through the calls of its context. engine/tls implements them by OpenSSL, in a module of its own.
 */
#ifndef HFI_KIT_TLS_H
#define HFI_KIT_TLS_H

#include "engine/conf.h"
#include "util/buffer.h"

#include <stdbool.h>

struct hfi_tls; /* one connection */

enum hfi_tls_result {
    HFI_TLS_DONE,  /* as asked */
    HFI_TLS_MORE,  /* bytes of the peer are needed first */
    HFI_TLS_ENDED, /* the peer said goodbye */
    HFI_TLS_FAILED /* and why() says why */
};

/* What is the same for all connections of a store. */
struct hfi_tls_context {
    void (*free)(struct hfi_tls_context *context);
    /* For a connection to `host`. NULL: out of memory. */
    struct hfi_tls *(*open)(const struct hfi_tls_context *context, const char *host);
    void (*close)(struct hfi_tls *tls);
    /* What came from the socket. false: out of memory. */
    bool (*feed)(struct hfi_tls *tls, const void *bytes, size_t len);
    enum hfi_tls_result (*handshake)(struct hfi_tls *tls);
    /* DONE: *ret_len bytes, at least one. */
    enum hfi_tls_result (*read)(struct hfi_tls *tls, void *bytes, size_t size, size_t *ret_len);
    enum hfi_tls_result (*write)(struct hfi_tls *tls, const void *bytes, size_t len);
    /* Move what is to be sent to the end of `wire`. false: out of memory, or beyond its bound. */
    bool (*drain)(struct hfi_tls *tls, struct hfi_buffer *wire);
    /* Say goodbye: the last bytes are then to be drained. */
    void (*goodbye)(struct hfi_tls *tls);
    const char *(*why)(const struct hfi_tls *tls);
    /* It failed because one side refuses the other: trying again will not help. */
    bool (*refused)(const struct hfi_tls *tls);

    /* Offer this application protocol (ALPN), static text. false: out of memory. */
    bool (*offer)(struct hfi_tls_context *context, const char *protocol);

    void *library;        /* SSL_CTX */
    const char *protocol; /* that the server must choose; NULL: any */
    const struct hfi_tls_conf *conf;
};

/* `conf` lives longer than the context. HF_CONFIG, HF_DENIED (a file cannot be read), HF_NO_MEMORY. */
hf_status hfi_tls_context_new(const struct hfi_tls_conf *conf, struct hfi_tls_context **ret_context,
                              hf_error *err);
void hfi_tls_context_free(struct hfi_tls_context *context); /* NULL is fine */

/* What the entry of the module of TLS returns. */
struct hfi_tls_module {
    unsigned abi; /* HFI_ENGINE_ABI */
    hf_status (*context_new)(const struct hfi_tls_conf *conf, struct hfi_tls_context **ret_context,
                             hf_error *err);
};
typedef const struct hfi_tls_module *hfi_tls_entry_fn(void);
hfi_tls_entry_fn hfi_tls_entry;

#endif
