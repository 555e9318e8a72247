/* SPDX-License-Identifier: MIT */
#include "certs.h"

#include "../unit/unit.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <stdio.h>

#define DAY_S (24 * 3600L)

static EVP_PKEY *authority_key;
static X509 *authority;

const char *certs_path(const char *dir, const char *file)
{
    static char paths[4][256];
    static unsigned turn;
    char *path = paths[turn++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", dir, file);
    return path;
}

static X509 *make(EVP_PKEY *key, const char *name, long from_s, long until_s)
{
    static long serial = 1;
    X509 *cert = X509_new();
    X509_NAME *subject = X509_get_subject_name(cert);

    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), serial++);
    X509_gmtime_adj(X509_getm_notBefore(cert), from_s);
    X509_gmtime_adj(X509_getm_notAfter(cert), until_s);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    return cert;
}

static void extend(X509 *cert, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

    assert_non_null(extension);
    assert_int_equal(X509_add_ext(cert, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static void sign(X509 *cert, X509 *by)
{
    X509_set_issuer_name(cert, X509_get_subject_name(by));
    assert_true(X509_sign(cert, authority_key, EVP_sha256()) > 0);
}

static void save(const char *dir, const char *name, X509 *cert, EVP_PKEY *key)
{
    char file[64];
    FILE *out;

    snprintf(file, sizeof file, "%s.pem", name);
    out = fopen(certs_path(dir, file), "we");
    assert_non_null(out);
    assert_int_equal(PEM_write_X509(out, cert), 1);
    fclose(out);
    snprintf(file, sizeof file, "%s.key", name);
    out = fopen(certs_path(dir, file), "we");
    assert_non_null(out);
    assert_int_equal(PEM_write_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(out);
}

void certs_authority(const char *dir)
{
    X509_free(authority);
    EVP_PKEY_free(authority_key);
    authority_key = EVP_EC_gen("P-256");
    assert_non_null(authority_key);
    authority = make(authority_key, "wire test authority", -30 * DAY_S, 30 * DAY_S);
    extend(authority, NID_basic_constraints, "critical,CA:TRUE");
    sign(authority, authority);
    save(dir, "ca", authority, authority_key);
}

void certs_make(const char *dir, const char *name, const char *names, int days)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = make(key, name, -20 * DAY_S, days * DAY_S);

    if (names)
        extend(cert, NID_subject_alt_name, names);
    sign(cert, authority);
    save(dir, name, cert, key);
    X509_free(cert);
    EVP_PKEY_free(key);
}
