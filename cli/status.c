/* SPDX-License-Identifier: MIT */
/* --status-fd: see status.h. */
#include "status.h"

#include "util/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int status_open(struct status_out *status, const struct cli *cli, int64_t fd)
{
    int flags;

    *status = (struct status_out){ .outlet = OUTLET_INIT(-1), .log = cli->args.log == 1 };
    if (fd < 0)
        return EXIT_FINE;

    flags = fcntl((int)fd, F_GETFL);
    if (flags < 0 || (fd == STDOUT_FILENO && cli->stdout_closed))
        return usage_error(cli, "--status-fd %lld is not open", (long long)fd);
    if ((flags & O_ACCMODE) == O_RDONLY)
        return usage_error(cli, "--status-fd %lld is not open for writing", (long long)fd);

    /* The command shares the standard descriptors: for these we write to a copy. */
    if (fd > STDERR_FILENO && fcntl((int)fd, F_SETFD, FD_CLOEXEC) == 0)
        status->outlet.fd = (int)fd;
    else
        status->outlet.fd = fcntl((int)fd, F_DUPFD_CLOEXEC, 3);
    if (status->outlet.fd < 0)
        return usage_error(cli, "--status-fd %lld: %s", (long long)fd, strerror(errno));
    return EXIT_FINE;
}

bool status_wanted(const struct status_out *status)
{
    return status->outlet.fd >= 0 || status->log;
}

json_t *status_begin(const struct status_out *status, const char *event)
{
    json_t *object;

    if (!status_wanted(status))
        return NULL;
    object = json_object();
    json_object_set_new(object, "event", json_string(event));
    return object;
}

void status_send(struct status_out *status, json_t *event)
{
    char *text =
        event && status->outlet.fd >= 0 ? hfi_json_escape(json_dumps(event, JSON_COMPACT)) : NULL;
    size_t len = text ? strlen(text) : 0;
    char *line;

    if (event && status->log)
        say_object(event);
    json_decref(event);
    if (!text)
        return;

    line = must_alloc(len + 1);
    memcpy(line, text, len);
    line[len] = '\n';
    outlet_put(&status->outlet, line, len + 1);
    free(line);
    free(text);
}

void status_drain(struct status_out *status)
{
    outlet_drain(&status->outlet);
}
