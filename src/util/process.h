/* SPDX-License-Identifier: MIT */
/* Which process is this? A number that differs in a forked child, without a system call: kept in a
 * page that the kernel wipes on fork (MADV_WIPEONFORK), so raw clone(2) is covered too. */
#ifndef HFI_PROCESS_H
#define HFI_PROCESS_H
#include <pthread.h>
#include <stdint.h>
/* Nonzero; random once per process image. */
uint64_t hfi_process_id(void);
/* A mutex in that page: never held in a fresh child, whatever the parent's threads were doing. */
pthread_mutex_t *hfi_process_mutex(void);
/* One pointer in that page: NULL in a fresh child. Read and write under the mutex. */
void **hfi_process_slot(void);
#endif
