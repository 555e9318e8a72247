/* SPDX-License-Identifier: MIT */
/* The JSON forms that the man pages document. 64-bit numbers are strings: JSON's own numbers are
 * doubles in most readers. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include "cli.h"

#include <jansson.h>

json_t *json_u64(uint64_t value);
/* The numbers of a semaphore's slots; null if there are none. */
json_t *json_slots(const uint32_t *slots, uint32_t count);
json_t *json_i64(int64_t value);
json_t *json_pid(int64_t pid); /* null: not known */
/* Text that may hold any bytes: as it is if it is UTF-8, else quoted (\xNN). */
json_t *json_text(const void *bytes, size_t len);
/* "name", and beside it "name_hex" if the name is not UTF-8. */
void json_set_name(json_t *object, const void *name, size_t len);
json_t *json_holder(const hf_holder *holder);
/* One name: kind, capacity, holders, waiters (null if they are not tracked). */
json_t *json_entry(const hf_entry *entry, bool waiters_tracked);
/* "time": now, in UTC, as "2026-11-18T09:30:00.123Z". */
void json_set_time(json_t *object);
/* To standard error, in one line, with the time: a message of a log (say.c). */
void say_object(json_t *object);
/* Print to stdout, with a line feed, and free it. */
void json_print(json_t *json, bool indent);

/* "mutex", "rwlock" or "semaphore". */
const char *kind_word(hf_kind kind);

#endif
