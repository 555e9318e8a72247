/* SPDX-License-Identifier: MIT */
/*
 * `run --metrics-file`: how the run went, as text for the textfile collector of Prometheus' node_exporter, so that a cron job is
 * visible. Written once, at the end, also if the name was not acquired. The file is replaced in one step: a reader sees the old text or
 * the new one. What goes wrong here is said, and changes no exit code.
 */
#include "run.h"

#include "util/metrics.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* To a millisecond. */
static double now_seconds(void)
{
    struct timespec now;
    int64_t ms;

    clock_gettime(CLOCK_REALTIME, &now);
    ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    return (double)ms / 1000;
}

static void write_all(FILE *out, const struct run *run, int code)
{
    const char *name = run->cli->args.name;
    const struct hfi_metric_label label = { "name", name, strlen(name) };
    double now_s = now_seconds();
    const struct {
        const char *name, *help;
        double value;
    } metrics[] = {
        { "holdfast_run_end_time_seconds", "When the last run ended, in seconds since 1970.",
          now_s },
        { "holdfast_run_acquired", "Was the name acquired? 1: yes.", run->acquired },
        { "holdfast_run_lost", "Was the lease lost while the command ran? 1: yes.", run->lost },
        { "holdfast_run_exit_code", "The exit code of the last run.", code },
        { "holdfast_run_wait_seconds", "How long the last run waited for the name.",
          (double)run->waited_ms / 1000 },
        { "holdfast_run_hold_seconds", "How long the last run held the name.",
          (double)run->held_ms / 1000 },
    };

    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        hfi_metric_family(out, metrics[i].name, "gauge", metrics[i].help);
        hfi_metric_sample(out, metrics[i].name, &label, 1, metrics[i].value);
    }
}

/* mkstemp(3) lets nobody else read the file, but the exporter is another user. */
static void open_to_readers(int fd)
{
    mode_t mask = umask(0);

    umask(mask);
    (void)fchmod(fd, 0666 & ~mask);
}

/* false: errno says why. */
static bool write_file(const char *temporary, int fd, const char *file, const struct run *run,
                       int code)
{
    FILE *out = fdopen(fd, "w");
    bool bad;

    if (!out) {
        close(fd);
        return false;
    }
    write_all(out, run, code);
    bad = ferror(out);
    bad |= fclose(out) != 0; /* a full disk may come to light here */
    return !bad && rename(temporary, file) == 0;
}

void metrics_file_write(const struct run *run, int code)
{
    const char *file = run->cli->args.metrics_file;
    char temporary[PATH_MAX];
    int fd;

    if (!file)
        return;
    /* In the same folder, and not with the ending that the exporter looks for. */
    if (snprintf(temporary, sizeof temporary, "%s.XXXXXX", file) >= (int)sizeof temporary) {
        say_error("--metrics-file '%s': %s", shown(file), strerror(ENAMETOOLONG));
        return;
    }
    fd = mkstemp(temporary);
    if (fd >= 0)
        open_to_readers(fd);
    if (fd >= 0 && write_file(temporary, fd, file, run, code))
        return;
    say_error("--metrics-file '%s' was not written: %s", shown(file), strerror(errno));
    if (fd >= 0)
        unlink(temporary);
}
