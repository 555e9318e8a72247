/* SPDX-License-Identifier: MIT */
/* The group `async` has two files of cases: acquiring and releasing in a loop (async.c), and every asynchronous form at once. */
#ifndef ASYNC_H
#define ASYNC_H

int async_forms(void);

#endif
