/* SPDX-License-Identifier: MIT */
/* An event loop of a case: poll(2) and hf_store_process(). */
#ifndef LOOP_H
#define LOOP_H

#include "contract.h"

/* One turn; it sleeps for at most so long. */
void loop_turn(hf_store *store, int at_most_ms);
/* Fails after LIMIT_MS. */
#define LOOP_UNTIL(store, truth)                                                       \
    do {                                                                               \
        int64_t loop_until = now_ms() + LIMIT_MS;                                      \
        while (!(truth)) {                                                             \
            check_true(now_ms() < loop_until, "in time: " #truth, __FILE__, __LINE__); \
            loop_turn(store, 20);                                                      \
        }                                                                              \
    } while (0)

/* For hf_acquire_async() with `hf_lease **arg`. */
void keep_lease(const hf_result *result, void *arg);

#endif
