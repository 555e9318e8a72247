/* SPDX-License-Identifier: MIT */
/* A growing text, and JSON in it: what we send is written once, from front to back. Out of memory
 * makes the text `failed`, and everything after it does nothing. */
#ifndef SERVE_OUT_H
#define SERVE_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct out {
    char *at;
    size_t len, size;
    bool failed;
    bool comma; /* the next member of an object or array needs one in front */
};

void out_done(struct out *out);
void out_bytes(struct out *out, const void *bytes, size_t len);
__attribute__((format(printf, 2, 3))) void out_print(struct out *out, const char *format, ...);

/* JSON. `key` NULL: a member of an array. */
void out_open(struct out *out, const char *key, char bracket);
void out_close(struct out *out, char bracket);
/* Any bytes: as they are if they are UTF-8, else quoted (\xNN), as `holdfast ls --json` does. No
 * byte of it means something in HTML or ends a line of an event. */
void out_text(struct out *out, const char *key, const void *bytes, size_t len);
void out_word(struct out *out, const char *key, const char *word); /* NULL: null */
void out_int(struct out *out, const char *key, int64_t number);
void out_u64(struct out *out, const char *key, uint64_t number); /* as a string */
void out_bool(struct out *out, const char *key, bool value);
void out_null(struct out *out, const char *key);
/* "name", and "name_hex" beside it if the name is not UTF-8. */
void out_name(struct out *out, const void *name, size_t len);

bool is_utf8(const void *bytes, size_t len);

#endif
