/* SPDX-License-Identifier: MIT */
/* The group `async` has three files of cases: acquiring and releasing in a loop (async.c), every asynchronous form at once, and what wakes a loop. */
#ifndef ASYNC_H
#define ASYNC_H

int async_forms(void);
int async_wakes(void);

#endif
