/* SPDX-License-Identifier: MIT */
/* Futexes, private to a process or shared through a mapping. */
#ifndef HFI_FUTEX_H
#define HFI_FUTEX_H
#include <stdbool.h>
#include <stdint.h>
/* Sleep while *word == expected, until woken, until_ms (hfi_now_ms() time, INT64_MAX: no limit) or
 * a signal. May return for no reason. The kernel's timeout runs on CLOCK_MONOTONIC: callers re-read
 * hfi_now_ms(). */
void hfi_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t until_ms, bool shared);
/* Wake up to n sleepers; returns how many. */
int hfi_futex_wake(_Atomic uint32_t *word, int n, bool shared);
#endif
