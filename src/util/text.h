/* SPDX-License-Identifier: MIT */
/* Small text work: durations, numbers, globs, names for people, hex. */
#ifndef HFI_TEXT_H
#define HFI_TEXT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
/* "500ms", "10s", "2m", "1h", "3d"; digits and one unit, no sign, no space, at most HF_DURATION_MAX_MS.
 * Returns NULL, or a text that says what is wrong ("needs a unit: ms, s, m, h or d"). */
const char *hfi_parse_duration(const char *text, int64_t *ret_ms);
/* The same the other way, short: "500ms", "10s", "1m30s", "2h". Returns buf. */
char *hfi_format_duration(int64_t ms, char *buf, size_t size);
/* Plain decimal, no sign, in range. Returns NULL, or a text that says what is wrong. */
const char *hfi_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret_value);
/* Glob over bytes: * ? [a-z] [!a-z] and \ to quote. No special slash or dot. */
bool hfi_glob_match(const unsigned char *pattern, size_t pattern_len, const unsigned char *text,
                    size_t len);
/* A name for people: printable UTF-8 as it is; control bytes, backslash and invalid bytes as \xNN;
 * cut with "..." to fit. Always NUL-terminated. Returns buf. */
char *hfi_quote_name(const void *name, size_t len, char *buf, size_t size);
#define HFI_QUOTED_MAX (512 * 4 + 4)
/* Make foreign text (a server's, a path) safe to print: control, invisible and bidirectional
 * characters and bytes that are not UTF-8 become '?', white space becomes a blank. In place; the
 * text does not grow. `lines`: line feeds stay. */
void hfi_disarm(char *text, bool lines);
/*
 * JSON for a terminal too. A control, invisible or bidirectional character (not ASCII, which every writer of JSON escapes) at `text`:
 * its bytes, and how it is written in a string: \u202e, or a pair. 0: there is none.
 */
#define HFI_JSON_ESCAPE 13
size_t hfi_json_unseen(const void *text, size_t len, char ret_escape[HFI_JSON_ESCAPE]);
/* How many letters must be added, dropped, changed or swapped with their neighbour; HFI_FAR if a word is too long for that. */
#define HFI_FAR 64
size_t hfi_edit_distance(const char *a, const char *b);
void hfi_hex(const void *bytes, size_t len, char *ret_text); /* 2 * len + 1 */
bool hfi_unhex(const char *text, size_t text_len, void *ret_bytes, size_t len);
#endif
