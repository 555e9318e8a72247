/* SPDX-License-Identifier: MIT */
/*
 * TLS between two memory buffers, by OpenSSL. The peer's certificate is verified against the
 * system's authorities or ca=, and its name against the host we asked for (or sni=); TLS 1.2 is the
 * oldest version allowed.
 *
 * Renegotiation and early data are off, and session tickets are not kept: a connection lives long,
 * and the traffic of a lock must not be replayed.
 */
#include "engine/kit/tls.h"
#include "engine/engine.h"

#include "util/alloc.h"
#include "util/error.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct hfi_tls {
    const struct hfi_tls_context *context;
    SSL *ssl;
    BIO *in, *out; /* the ssl's */
    char why[160];
    bool refused;
};

static hf_status load_files(SSL_CTX *context, const struct hfi_tls_conf *conf, hf_error *err);
static hf_status file_error(const char *key, const char *path, hf_error *err);
static bool expect_name(SSL *ssl, bool verify, const char *name);
static enum hfi_tls_result result_of(struct hfi_tls *tls, int code);
static void tls_close(struct hfi_tls *tls);
static void explain(struct hfi_tls *tls);
static bool is_refusal(int alert);
static int no_password(char *buffer, int size, int writing, void *data);

/* ---- what is the same for all connections of a store ------------------------------------------ */

static SSL_CTX *new_library_context(const struct hfi_tls_conf *conf)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());

    if (!context)
        return NULL;
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_verify(context, conf->verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_default_passwd_cb(context, no_password);
    return context;
}

static hf_status load_files(SSL_CTX *context, const struct hfi_tls_conf *conf, hf_error *err)
{
    if (conf->ca && SSL_CTX_load_verify_file(context, conf->ca) != 1)
        return file_error("ca", conf->ca, err);
    if (!conf->ca && conf->verify && SSL_CTX_set_default_verify_paths(context) != 1)
        return hfi_error_set(err, HF_CONFIG, 0, "TLS: this system has no authorities: give ca=");
    if (!conf->cert)
        return HF_OK;

    if (SSL_CTX_use_certificate_chain_file(context, conf->cert) != 1)
        return file_error("cert", conf->cert, err);
    if (SSL_CTX_use_PrivateKey_file(context, conf->key, SSL_FILETYPE_PEM) != 1)
        return file_error("key", conf->key, err);
    if (SSL_CTX_check_private_key(context) != 1)
        return hfi_error_set(err, HF_CONFIG, 0, "TLS: cert= and key= do not belong together");
    return HF_OK;
}

/* "TLS: ca= /etc/x.pem: No such file or directory". OpenSSL's own words if it could be opened. */
static hf_status file_error(const char *key, const char *path, hf_error *err)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = ERR_reason_error_string(code);

    if (access(path, R_OK) != 0)
        return hfi_error_set(err, HF_DENIED, errno, "TLS: %s= %s: %s", key, path, strerror(errno));
    return hfi_error_set(err, HF_CONFIG, 0, "TLS: %s= %s: %s", key, path,
                         reason ? reason : "is not in PEM form");
}

/* An encrypted key cannot be used: there is nobody to ask for its password. */
static int no_password(char *buffer, int size, int writing, void *data)
{
    (void)buffer;
    (void)size;
    (void)writing;
    (void)data;
    return -1;
}

/* ---- one connection --------------------------------------------------------------------------- */

static struct hfi_tls *tls_open(const struct hfi_tls_context *context, const char *host)
{
    struct hfi_tls *tls = hfi_calloc(1, sizeof *tls);

    if (!tls)
        return NULL;

    tls->context = context;
    tls->ssl = SSL_new(context->library);
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    if (!tls->ssl || !tls->in || !tls->out) {
        BIO_free(tls->in);
        BIO_free(tls->out);
        SSL_free(tls->ssl);
        hfi_free(tls);
        return NULL;
    }
    BIO_set_mem_eof_return(tls->in, -1); /* empty is not the end */
    BIO_set_mem_eof_return(tls->out, -1);
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    SSL_set_connect_state(tls->ssl);

    if (!expect_name(tls->ssl, context->conf->verify,
                     context->conf->name ? context->conf->name : host)) {
        tls_close(tls);
        return NULL;
    }
    return tls;
}

static void tls_close(struct hfi_tls *tls)
{
    if (!tls)
        return;
    SSL_free(tls->ssl);
    hfi_free(tls);
}

/* SNI is for names only; a certificate may name either. */
static bool expect_name(SSL *ssl, bool verify, const char *name)
{
    unsigned char bytes[16];
    bool numeric = inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;

    if (!numeric && SSL_set_tlsext_host_name(ssl, name) != 1)
        return false;
    if (!verify)
        return true;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (numeric)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    return SSL_set1_host(ssl, name) == 1;
}

static bool tls_feed(struct hfi_tls *tls, const void *bytes, size_t len)
{
    return BIO_write(tls->in, bytes, (int)len) == (int)len;
}

static bool has_protocol(const struct hfi_tls *tls)
{
    const char *wanted = tls->context->protocol;
    const unsigned char *chosen = NULL;
    unsigned len = 0;

    SSL_get0_alpn_selected(tls->ssl, &chosen, &len);
    return !wanted || (len == strlen(wanted) && memcmp(chosen, wanted, len) == 0);
}

static enum hfi_tls_result tls_handshake(struct hfi_tls *tls)
{
    enum hfi_tls_result result;

    ERR_clear_error();
    result = result_of(tls, SSL_do_handshake(tls->ssl));
    if (result != HFI_TLS_DONE || has_protocol(tls))
        return result;
    snprintf(tls->why, sizeof tls->why, "the server does not speak %s", tls->context->protocol);
    return HFI_TLS_FAILED;
}

static enum hfi_tls_result tls_read(struct hfi_tls *tls, void *bytes, size_t size, size_t *ret_len)
{
    ERR_clear_error();
    return result_of(tls, SSL_read_ex(tls->ssl, bytes, size, ret_len));
}

/* Into a memory buffer, so all of it or nothing. */
static enum hfi_tls_result tls_write(struct hfi_tls *tls, const void *bytes, size_t len)
{
    size_t written;

    ERR_clear_error();
    return result_of(tls, SSL_write_ex(tls->ssl, bytes, len, &written));
}

static bool tls_drain(struct hfi_tls *tls, struct hfi_buffer *wire)
{
    size_t len = BIO_ctrl_pending(tls->out), got = 0;
    char *to;

    if (len == 0)
        return true;
    to = hfi_buffer_reserve(wire, len);
    if (!to || BIO_read_ex(tls->out, to, len, &got) != 1)
        return false;
    wire->len += got;
    return true;
}

static void tls_goodbye(struct hfi_tls *tls)
{
    ERR_clear_error();
    (void)SSL_shutdown(tls->ssl);
    ERR_clear_error();
}

static const char *tls_why(const struct hfi_tls *tls)
{
    return tls->why;
}

static bool tls_refused(const struct hfi_tls *tls)
{
    return tls->refused;
}

static enum hfi_tls_result result_of(struct hfi_tls *tls, int code)
{
    if (code == 1)
        return HFI_TLS_DONE;
    switch (SSL_get_error(tls->ssl, code)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return HFI_TLS_MORE;
    case SSL_ERROR_ZERO_RETURN:
        return HFI_TLS_ENDED;
    default:
        explain(tls);
        return HFI_TLS_FAILED;
    }
}

/* Does this alert of the server mean that it refuses us? Others may be temporary: a damaged record,
 * a server out of memory. */
static bool is_refusal(int alert)
{
    switch (alert) {
    case SSL_AD_HANDSHAKE_FAILURE:
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_ACCESS_DENIED:
    case SSL_AD_PROTOCOL_VERSION:
    case SSL_AD_INSUFFICIENT_SECURITY:
    case SSL_AD_UNRECOGNIZED_NAME:
    case SSL_AD_CERTIFICATE_REQUIRED:
        return true;
    default:
        return false;
    }
}

/* Name the reason why a certificate was refused: OpenSSL's text is only "certificate verify
 * failed". */
static void explain(struct hfi_tls *tls)
{
    long verdict = SSL_get_verify_result(tls->ssl);
    unsigned long code = ERR_peek_error();
    const char *reason = ERR_reason_error_string(code);

    tls->refused = is_refusal(ERR_GET_REASON(code) - SSL_AD_REASON_OFFSET);
    if (verdict != X509_V_OK && SSL_get_verify_mode(tls->ssl) != SSL_VERIFY_NONE) {
        tls->refused = true;
        snprintf(tls->why, sizeof tls->why, "the server's certificate: %s",
                 X509_verify_cert_error_string(verdict));
    } else {
        snprintf(tls->why, sizeof tls->why, "%s", reason ? reason : "broken off");
    }
    ERR_clear_error();
}

static bool tls_offer(struct hfi_tls_context *context, const char *protocol)
{
    unsigned char list[16];
    size_t len = strlen(protocol);

    if (len >= sizeof list)
        return false;
    list[0] = (unsigned char)len;
    memcpy(list + 1, protocol, len);
    context->protocol = protocol;
    return SSL_CTX_set_alpn_protos(context->library, list, (unsigned)len + 1) == 0;
}

/* ---- the context ------------------------------------------------------------------------------ */

static void context_free(struct hfi_tls_context *context)
{
    SSL_CTX_free(context->library);
    hfi_free(context);
}

static hf_status context_new(const struct hfi_tls_conf *conf, struct hfi_tls_context **ret_context,
                             hf_error *err)
{
    struct hfi_tls_context *context = hfi_malloc(sizeof *context);
    SSL_CTX *library = new_library_context(conf);
    hf_status status = context && library ? HF_OK : hfi_error_memory(err);

    ERR_clear_error();
    if (status == HF_OK)
        status = load_files(library, conf, err);
    ERR_clear_error();
    if (status != HF_OK) {
        SSL_CTX_free(library);
        hfi_free(context);
        return status;
    }
    *context = (struct hfi_tls_context){
        .free = context_free,
        .open = tls_open,
        .close = tls_close,
        .feed = tls_feed,
        .handshake = tls_handshake,
        .read = tls_read,
        .write = tls_write,
        .drain = tls_drain,
        .goodbye = tls_goodbye,
        .why = tls_why,
        .refused = tls_refused,
        .offer = tls_offer,
        .library = library,
        .conf = conf,
    };
    *ret_context = context;
    return HF_OK;
}

const struct hfi_tls_module *hfi_tls_entry(void)
{
    static const struct hfi_tls_module module = { HFI_ENGINE_ABI, context_new };

    return &module;
}
