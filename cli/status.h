/* SPDX-License-Identifier: MIT */
/* --status-fd: what happens to a `run`, one JSON object a line, for the program that started us. */
#ifndef CLI_STATUS_H
#define CLI_STATUS_H

#include "json.h"

struct status_out {
    int fd; /* -1: nobody listens */
};

/* Take over descriptor `fd` (-1: none): it is not inherited by the command. EXIT_FINE, or EXIT_USAGE
 * after a message: it is not open for writing. */
int status_open(struct status_out *status, const struct cli *cli, int64_t fd);
bool status_wanted(const struct status_out *status);
/* Send {"event": event, ...more}. `more` may be NULL; it is consumed. Any thread. A reader that does
 * not read loses lines: a lease is never kept waiting for it. */
void status_send(struct status_out *status, const char *event, json_t *more);

#endif
