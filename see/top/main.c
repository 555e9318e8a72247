/* SPDX-License-Identifier: MIT */
/*
 * holdfast-top, which `holdfast top` executes: the sources have a thread each and wake this one by an eventfd; this one draws and reads
 * keys. A store that is away is waited for by its own thread alone.
 */
#include "curses.h"
#include "once.h"
#include "ui.h"
#include "util/text.h"

#include <errno.h>
#include <inttypes.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <wchar.h>

#define EXIT_USAGE    64
#define EXIT_INTERNAL 70
#define TICK_MS       500 /* ages grow */
#define FRAME_MS      60  /* at least between two drawings */
#define PIPE_COLS     120 /* --once without a terminal */

struct top {
    struct see_stores stores;
    struct see_source *sources[SEE_STORES_MAX];
    struct see_source_info infos[SEE_STORES_MAX];
    const char *glob;
    bool once, json, plain;
    int stores_fd;
    int changed_fd, signal_fd;
    struct ui ui;
    struct screen screen;
};

/* ---- arguments: made by cli/top.c -------------------------------------------------------------- */

static bool parse(struct top *top, int argc, char **argv)
{
    static const char prefix[] = "--stores-fd=";
    uint64_t fd = INT_MAX;

    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], prefix, strlen(prefix)) == 0 &&
            !hfi_parse_u64(argv[i] + strlen(prefix), 0, INT_MAX - 1, &fd))
            top->stores_fd = (int)fd;
        else if (strcmp(argv[i], "--once") == 0)
            top->once = true;
        else if (strcmp(argv[i], "--json") == 0)
            top->once = top->json = true;
        else if (strcmp(argv[i], "--plain") == 0)
            top->plain = true;
        else if (strcmp(argv[i], "--glob") == 0 && i + 1 < argc)
            top->glob = argv[++i];
        else
            return false;
    return fd < INT_MAX;
}

/* Marks that are two columns wide here would push everything aside: ASCII then, as without UTF-8. */
static bool draws_marks(void)
{
    return screen_locale() && wcwidth(0x25c6) == 1 && wcwidth(0x25cf) == 1;
}

/* ---- sources ------------------------------------------------------------------------------------- */

static void wake(void *arg)
{
    uint64_t one = 1;
    ssize_t ignored = write(*(int *)arg, &one, sizeof one); /* full: it is awake anyway */

    (void)ignored;
}

static bool start_sources(struct top *top)
{
    for (size_t i = 0; i < top->stores.count; i++) {
        struct see_source_options options = { .name = top->stores.items[i].name,
                                              .url = top->stores.items[i].url,
                                              .changed = wake,
                                              .arg = &top->changed_fd };

        top->sources[i] = see_source_start(&options);
        if (!top->sources[i])
            return false;
    }
    return true;
}

static struct see_source *current(const struct top *top)
{
    return top->sources[top->ui.store];
}

/* ---- deeds ------------------------------------------------------------------------------------------ */

static void break_lease(struct top *top)
{
    struct ui *ui = &top->ui;
    hf_error err;

    switch (see_source_break(current(top), ui->name, ui->name_len, ui->token, &err)) {
    case HF_OK:
        ui_say(ui, false, "Broken: %s, token %" PRIu64 ".", ui->target, ui->token);
        break;
    case HF_NOT_FOUND:
        ui_say(ui, true, "That lease has ended already: nothing was broken.");
        break;
    case HF_UNKNOWN:
    case HF_TIMEOUT:
        ui_say(ui, true, "It is not known whether it was broken: %s", err.text);
        break;
    default:
        ui_say(ui, true, "%s", err.text);
    }
}

static void ask_holder(struct top *top)
{
    struct ui *ui = &top->ui;
    hf_error err;

    switch (
        see_source_ask(current(top), ui->name, ui->name_len, ui->text[0] ? ui->text : NULL, &err)) {
    case HF_OK:
        ui_say(ui, false, "The holder of %s was told.", ui->target);
        break;
    case HF_BUSY:
        ui_say(ui, true, "The holder of %s does not listen.", ui->target);
        break;
    case HF_NOT_FOUND:
        ui_say(ui, true, "Nobody holds %s.", ui->target);
        break;
    default:
        ui_say(ui, true, "%s", err.text);
    }
}

/* ---- the loop --------------------------------------------------------------------------------------- */

static void draw(struct top *top)
{
    struct ui *ui = &top->ui;
    const struct see_model *model;
    int rows, cols;

    for (size_t i = 0; i < top->stores.count; i++)
        top->infos[i] = see_source_info(top->sources[i]);
    ui->may_break = top->infos[ui->store].caps & HF_CAP_BREAK;
    ui->may_ask = top->infos[ui->store].caps & HF_CAP_WANTED;
    curses_size(&rows, &cols);
    if (rows != top->screen.rows || cols != top->screen.cols) {
        bool utf8 = top->screen.utf8;

        screen_done(&top->screen);
        if (!screen_init(&top->screen, rows, cols, utf8))
            return;
    }
    model = see_source_lock(current(top));
    ui_refresh(ui, model, see_now_ms());
    ui_draw(ui, &top->screen);
    see_source_unlock(current(top));
    curses_show(&top->screen);
}

/* false: it is over. */
static bool take_keys(struct top *top)
{
    int key;

    while ((key = curses_key()) >= 0) {
        struct see_source *source = current(top); /* a key may choose another one */
        const struct see_model *model = see_source_lock(source);
        enum ui_deed deed;

        ui_refresh(&top->ui, model, see_now_ms()); /* rows of the last drawing may be gone */
        deed = ui_key(&top->ui, key, see_now_ms());
        see_source_unlock(source);
        switch (deed) {
        case UI_QUIT:
            return false;
        case UI_THEME:
            curses_other_theme();
            break;
        case UI_BREAK:
            break_lease(top);
            break;
        case UI_ASK:
            ask_holder(top);
            break;
        case UI_LOOK:
            see_source_poke(current(top));
            break;
        case UI_STORE:
        case UI_NOTHING:
            break;
        }
    }
    return true;
}

static void drain(int fd)
{
    uint64_t count;
    ssize_t ignored = read(fd, &count, sizeof count);

    (void)ignored;
}

/* 0, or the signal that ends us. */
static int take_signal(struct top *top)
{
    struct signalfd_siginfo info;

    if (read(top->signal_fd, &info, sizeof info) != sizeof info)
        return 0;
    if (info.ssi_signo != SIGWINCH)
        return (int)info.ssi_signo;
    curses_resize();
    return 0;
}

static int loop(struct top *top)
{
    struct pollfd fds[] = { { .fd = STDIN_FILENO, .events = POLLIN },
                            { .fd = top->changed_fd, .events = POLLIN },
                            { .fd = top->signal_fd, .events = POLLIN } };
    int signal = 0;

    while (!signal) {
        draw(top);
        if (poll(fds, 3, TICK_MS) < 0 && errno != EINTR)
            return SIGHUP;
        if (fds[2].revents & POLLIN)
            signal = take_signal(top);
        if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
            return SIGHUP; /* the terminal is gone */
        if (fds[0].revents & POLLIN && !take_keys(top))
            return 0;
        if (fds[1].revents & POLLIN && !(fds[0].revents & POLLIN)) {
            drain(top->changed_fd);
            poll(fds, 1, FRAME_MS); /* many changes, few drawings; a key is answered at once */
            fds[0].revents = 0;
        }
    }
    return signal;
}

static int open_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL); /* before any thread is started: none gets them */
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int run_once(struct top *top)
{
    struct once once = { .sources = top->sources,
                         .count = top->stores.count,
                         .glob = top->glob,
                         .json = top->json,
                         .utf8 = draws_marks(),
                         .cols = PIPE_COLS };
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20)
        once.cols = size.ws_col;
    return once_print(&once);
}

static int run_live(struct top *top)
{
    const char *no_color = getenv("NO_COLOR");
    int signal;

    ui_init(&top->ui);
    top->ui.infos = top->infos;
    top->ui.store_count = top->stores.count;
    top->ui.glob = top->glob;
    if (!curses_begin(!top->plain && !(no_color && *no_color)))
        return EXIT_USAGE;
    top->screen.utf8 = draws_marks();
    signal = loop(top);
    curses_end();
    ui_done(&top->ui);
    screen_done(&top->screen);
    return signal ? 128 + signal : 0;
}

int main(int argc, char **argv)
{
    struct top top = { .once = false };
    const char *wrong;
    int code;

    setlocale(LC_ALL, "");
    setlocale(LC_NUMERIC, "C");
    (void)screen_locale(); /* before curses looks */
    if (!parse(&top, argc, argv)) {
        fprintf(stderr, "holdfast-top: `holdfast top` runs this program\n");
        return EXIT_USAGE;
    }
    wrong = see_stores_read(top.stores_fd, &top.stores);
    if (wrong) {
        fprintf(stderr, "holdfast-top: %s\n", wrong);
        return EXIT_USAGE;
    }
    top.signal_fd = top.once ? -1 : open_signals();
    top.changed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (top.changed_fd < 0 || !start_sources(&top)) {
        fprintf(stderr, "holdfast: out of memory\n");
        return EXIT_INTERNAL;
    }
    code = top.once ? run_once(&top) : run_live(&top);
    /* The threads may be waiting for a store that is away, and hold nothing: end without them. */
    fflush(NULL);
    _exit(code);
}
