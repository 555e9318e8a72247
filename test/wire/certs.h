/* SPDX-License-Identifier: MIT */
/* Certificates for a test, made by it: an authority, and what it signs. */
#ifndef WIRE_CERTS_H
#define WIRE_CERTS_H

/* DIR/ca.pem with DIR/ca.key. */
void certs_authority(const char *dir);
/* DIR/NAME.pem with DIR/NAME.key, signed by DIR's authority. `names`: "DNS:localhost,IP:127.0.0.1",
 * or NULL. `days`: until it ends; negative: it has ended. */
void certs_make(const char *dir, const char *name, const char *names, int days);
/* A file in DIR; static, good until the next call but three. */
const char *certs_path(const char *dir, const char *file);

#endif
