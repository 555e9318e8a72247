/* SPDX-License-Identifier: MIT */
/*
 * Showing what a waiting `run` waits for: on a terminal one line that is
 * rewritten and at last erased, on a status descriptor an event per change.
 *
 * It runs on a thread of its own, and only if there is a terminal or a status descriptor. It sleeps
 * in hf_store_wait(). In a busy store changes of other names wake it too, so it reads the queue at
 * most five times a second. The age in the line needs one wake-up a second; a status descriptor
 * alone needs none.
 */
#include "acquire.h"

#include "util/clock.h"
#include "util/text.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define LOOK_MS     200  /* least time between two reads of the queue */
#define REDRAW_MS   1000 /* the age in the line */
#define LABEL_SHOWN 60

struct wait_line {
    struct acquiring *acquiring;
    bool drawing; /* on a terminal */
    bool drawn;   /* there is a line to erase; the thread's until it has ended */
    hf_cancel *cancel;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool stop; /* under the mutex */
};

struct queue_status {
    bool held;
    size_t others; /* holders beside this one */
    uint64_t token;
    uint32_t position; /* 0: not known */
    uint32_t waiters;
    int64_t since_ms; /* when the holder got it */
    int64_t pid;
    char label[LABEL_SHOWN];
};

static void *watch(void *arg);
static bool look(const struct wait_line *line, struct queue_status *ret_queue_status);
static void draw(struct wait_line *line, const struct queue_status *queue_status);
static bool in_foreground(void);
static void report(const struct wait_line *line, const struct queue_status *queue_status);
static bool pause_or_stop(struct wait_line *line);

struct wait_line *wait_line_begin(struct acquiring *acquiring)
{
    const struct cli *cli = acquiring->cli;
    const char *term = secure_getenv("TERM");
    struct wait_line *line;
    bool drawing =
        !cli->args.quiet && isatty(STDERR_FILENO) && (!term || strcmp(term, "dumb") != 0);

    if (!drawing && !status_wanted(acquiring->status))
        return NULL;
    if (!(acquiring->store->info.caps & HF_CAP_INSPECT))
        return NULL;

    line = must_alloc(sizeof *line);
    line->acquiring = acquiring;
    line->drawing = drawing;
    pthread_mutex_init(&line->mutex, NULL);
    pthread_cond_init(&line->wake, NULL);
    if (hf_cancel_open(&line->cancel) == HF_OK) {
        if (pthread_create(&line->thread, NULL, watch, line) == 0)
            return line;
        hf_cancel_close(line->cancel);
    }
    free(line); /* without the line, waiting still works */
    return NULL;
}

void wait_line_end(struct wait_line *line)
{
    if (!line)
        return;

    pthread_mutex_lock(&line->mutex);
    line->stop = true;
    pthread_cond_signal(&line->wake);
    pthread_mutex_unlock(&line->mutex);
    hf_cancel_fire(line->cancel);
    pthread_join(line->thread, NULL);

    if (line->drawn && in_foreground())
        say_bytes("\r\033[K", 4);
    hf_cancel_close(line->cancel);
    pthread_cond_destroy(&line->wake);
    pthread_mutex_destroy(&line->mutex);
    free(line);
}

/* ---- the thread ------------------------------------------------------------------- */

static void *watch(void *arg)
{
    struct wait_line *line = arg;
    hf_store *store = line->acquiring->store->store;
    struct queue_status last = { 0 };
    uint64_t seq = 0;

    /* Read the change counter before the first view: a change during that view must wake us. */
    hf_store_wait(store, &seq, 0, line->cancel, NULL);
    do {
        struct queue_status queue_status = { 0 };
        hf_status status;

        if (look(line, &queue_status)) {
            if (queue_status.token != last.token || queue_status.position != last.position)
                report(line, &queue_status);
            last = queue_status;
        }
        do {
            draw(line, &last);
            status = hf_store_wait(store, &seq, line->drawing ? REDRAW_MS : HF_FOREVER,
                                   line->cancel, NULL);
        } while (status == HF_TIMEOUT);
        if (status != HF_OK && status != HF_UNSUPPORTED && status != HF_DENIED)
            break;
    } while (pause_or_stop(line));
    return NULL;
}

/* Let LOOK_MS pass. false: it is time to stop. */
static bool pause_or_stop(struct wait_line *line)
{
    struct timespec until;
    bool stop;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_MS * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }

    pthread_mutex_lock(&line->mutex);
    while (!line->stop && pthread_cond_timedwait(&line->wake, &line->mutex, &until) != ETIMEDOUT)
        continue;
    stop = line->stop;
    pthread_mutex_unlock(&line->mutex);
    return !stop;
}

/* ---- looking ------------------------------------------------------------------------ */

/* A server knows no pid of a waiter; the label that the library makes has it, and the host. */
static bool is_ours(const struct wait_line *line, const hf_waiter *waiter)
{
    char host[65] = "", ours[sizeof host + 32];

    if (waiter->pid > 0)
        return waiter->pid == getpid();
    if (line->acquiring->request.label || !waiter->label || gethostname(host, sizeof host - 1) != 0)
        return false;
    snprintf(ours, sizeof ours, "@%s:%ld ", host, (long)getpid());
    return strstr(waiter->label, ours) != NULL;
}

static void see(const struct wait_line *line, const hf_entry *entry,
                struct queue_status *ret_queue_status)
{
    ret_queue_status->waiters = (uint32_t)entry->waiter_count;
    for (size_t i = 0; i < entry->waiter_count; i++)
        if (is_ours(line, hf_entry_waiter(entry, i)) && ret_queue_status->position == 0)
            ret_queue_status->position = hf_entry_waiter(entry, i)->position;

    for (size_t i = 0; i < entry->holder_count; i++) {
        const hf_holder *holder = hf_entry_holder(entry, i);
        const char *label = holder->label ? holder->label : "";

        if (ret_queue_status->held) {
            ret_queue_status->others++;
            continue;
        }
        ret_queue_status->held = true;
        ret_queue_status->token = holder->token;
        ret_queue_status->pid = holder->pid;
        ret_queue_status->since_ms = hfi_now_ms() - holder->age_ms;
        hfi_quote_name(label, strlen(label), ret_queue_status->label,
                       sizeof ret_queue_status->label);
    }
}

static bool look(const struct wait_line *line, struct queue_status *ret_queue_status)
{
    const hf_acquire_request *request = &line->acquiring->request;
    hf_view *view;

    if (hf_store_inspect(line->acquiring->store->store, request->name, request->name_len, 0, &view,
                         NULL) != HF_OK)
        return false;
    if (hf_view_count(view) > 0)
        see(line, hf_view_entry(view, 0), ret_queue_status);
    hf_free(view);
    return true;
}

/* ---- telling ------------------------------------------------------------------------ */

static void draw(struct wait_line *line, const struct queue_status *queue_status)
{
    char name[SHOWN_MAX], age[32], text[512], all[sizeof text + 8];
    const hf_acquire_request *request = &line->acquiring->request;
    struct winsize size;
    size_t used, columns = 80;

    /* Under Ctrl-S the line that waits to be written is as good as a new one. */
    if (!line->drawing || !in_foreground() || say_is_late())
        return;

    hfi_quote_name(request->name, request->name_len, name, sizeof name);
    used = (size_t)snprintf(text, sizeof text, "waiting for '%s'", name);
    if (queue_status->held) {
        int64_t age_ms = hfi_now_ms() - queue_status->since_ms;

        /* Whole seconds: the line is rewritten once a second. */
        hfi_format_duration(age_ms < 1000 ? 0 : age_ms / 1000 * 1000, age, sizeof age);
        used += (size_t)snprintf(text + used, sizeof text - used, ", held by %s for %s",
                                 queue_status->label, age_ms < 1000 ? "0s" : age);
    }
    if (queue_status->others)
        used += (size_t)snprintf(text + used, sizeof text - used, " and %zu more",
                                 queue_status->others);
    if (queue_status->position)
        used += (size_t)snprintf(text + used, sizeof text - used, "; position %u of %u",
                                 queue_status->position, queue_status->waiters);

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
        columns = size.ws_col;
    if (used >= columns) {
        used = columns - 1;
        while (used > 0 && ((unsigned char)text[used] & 0xc0) == 0x80)
            used--; /* not in the middle of a character */
        text[used] = 0;
    }
    say_bytes(all, (size_t)snprintf(all, sizeof all, "\r%s\033[K", text));
    line->drawn = true;
}

/* Are we in the foreground of the terminal? In the background another program uses it. */
static bool in_foreground(void)
{
    return tcgetpgrp(STDERR_FILENO) == getpgrp();
}

static void report(const struct wait_line *line, const struct queue_status *queue_status)
{
    const hf_acquire_request *request = &line->acquiring->request;
    json_t *event = status_begin(line->acquiring->status, "waiting");
    json_t *holder;

    if (!event)
        return;

    holder = queue_status->held ? json_object() : json_null();
    if (queue_status->held) {
        json_object_set_new(holder, "token", json_u64(queue_status->token));
        json_object_set_new(holder, "age_ms", json_i64(hfi_now_ms() - queue_status->since_ms));
        json_object_set_new(holder, "pid",
                            queue_status->pid > 0 ? json_integer(queue_status->pid) : json_null());
        json_object_set_new(holder, "label", json_string(queue_status->label));
    }
    json_set_name(event, request->name, request->name_len);
    json_object_set_new(event, "position",
                        queue_status->position ? json_integer(queue_status->position)
                                               : json_null());
    json_object_set_new(event, "holder", holder);
    status_send(line->acquiring->status, event);
}
