/* SPDX-License-Identifier: MIT */
/* openapi.json, compiled in. */
#ifndef SERVE_OPENAPI_H
#define SERVE_OPENAPI_H

#include <stddef.h>

extern const unsigned char openapi_json[];
extern const size_t openapi_json_len;

#endif
