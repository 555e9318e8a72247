/* SPDX-License-Identifier: MIT */
/* --status-fd, --log json: events of a `run`, one JSON object per line, for the program that started us, or for a log. */
#ifndef CLI_STATUS_H
#define CLI_STATUS_H

#include "json.h"
#include "outlet.h"

struct status_out {
    struct outlet outlet; /* its fd is -1: nobody listens */
    bool log;             /* --log json: to standard error too, with the time */
};

/* Take over descriptor `fd` (-1: none): it is not inherited by the command. EXIT_FINE, or EXIT_USAGE
 * after a message: it is not open for writing. */
int status_open(struct status_out *status, const struct cli *cli, int64_t fd);
bool status_wanted(const struct status_out *status);
/* Begin an event, {"event": event}. NULL if there is no reader; json_object_set_new() accepts that
 * and does nothing. Any thread. */
json_t *status_begin(const struct status_out *status, const char *event);
/* Send and free it; accepts NULL. Any thread. A slow reader gets lines late, or loses them: it
 * never delays the handling of the lease. */
void status_send(struct status_out *status, json_t *event);
/* At the end: wait a moment until everything is written. */
void status_drain(struct status_out *status);

#endif
