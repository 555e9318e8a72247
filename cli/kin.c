/* SPDX-License-Identifier: MIT */
/* Our descendants: see kin.h. */
#include "kin.h"

#include "cli.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STAT_MAX 1024

struct process {
    pid_t pid, parent, group, session;
    bool ended, stopped, blocked;
    bool ours;
    unsigned long long began; /* in ticks since boot: with the pid, its identity */
};

struct processes {
    struct process *items;
    size_t count, room;
};

static void read_all(struct processes *all);
static void mark_ours(const struct kin *kin, const struct kin_choice *choice,
                      struct processes *all);
static bool read_process(const char *pid, struct process *ret_process);
static int send_to(const struct process *process, int number);

void kin_begin(struct kin *kin)
{
    struct processes all = { 0 };
    siginfo_t info;

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    free(kin->strangers);
    *kin = (struct kin){ 0 };

    /* `job & exec holdfast run ...`: the job is our child, and not the command's. */
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
        return; /* no child at all, as nearly always */
    read_all(&all);
    kin->strangers = must_alloc(all.count * sizeof *kin->strangers + 1);
    for (size_t i = 0; i < all.count; i++)
        if (all.items[i].parent == getpid())
            kin->strangers[kin->stranger_count++] = all.items[i].pid;
    free(all.items);
}

struct kin_seen kin_signal(const struct kin *kin, int number, const struct kin_choice *choice)
{
    struct kin_seen seen = { 0 };
    struct processes all = { 0 };

    read_all(&all);
    mark_ours(kin, choice, &all);
    for (size_t i = 0; i < all.count; i++) {
        const struct process *one = &all.items[i];
        bool got_it = choice->but_group && one->group == choice->but_group;
        int error;

        if (!one->ours || one->ended || (choice->session && one->session != choice->session))
            continue;
        error = send_to(one, got_it ? 0 : number);
        if (error == ESRCH)
            continue;
        if (number == SIGTERM && one->stopped && !got_it)
            send_to(one, SIGCONT);
        seen.alive++;
        seen.moving += !one->stopped;
        seen.blocked += one->blocked;
        seen.denied += error == EPERM;
        if ((number ? error == EPERM : !one->stopped) && seen.named < KIN_NAMED)
            seen.pids[seen.named++] = one->pid;
    }
    free(all.items);
    return seen;
}

bool kin_reap(const struct kin *kin, pid_t command)
{
    siginfo_t info = { 0 };

    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0) {
        if (info.si_pid == 0 || info.si_pid == command)
            return kin->stranger_count == 0 ||
                   kin_signal(kin, 0, &(struct kin_choice){ 0 }).alive > 0;
        waitpid(info.si_pid, NULL, 0);
        info.si_pid = 0;
    }
    return false;
}

/* ---- /proc ------------------------------------------------------------------------ */

static int by_pid(const void *a, const void *b)
{
    pid_t left = ((const struct process *)a)->pid, right = ((const struct process *)b)->pid;

    return (left > right) - (left < right);
}

/* All processes that we can see, in the order of their numbers. */
static void read_all(struct processes *all)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;

    while (proc && (entry = readdir(proc))) {
        struct process one;

        if (!isdigit((unsigned char)entry->d_name[0]) || !read_process(entry->d_name, &one))
            continue;
        if (all->count == all->room) {
            size_t room = all->room ? 2 * all->room : 256;
            struct process *items = realloc(all->items, room * sizeof *items);

            if (!items)
                break; /* out of memory: use those that we have read */
            all->items = items;
            all->room = room;
        }
        all->items[all->count++] = one;
    }
    if (proc)
        closedir(proc);
    if (all->count > 0)
        qsort(all->items, all->count, sizeof *all->items, by_pid);
}

/* Field `number` of a line of proc(5), the third of which is the first in `text`. */
static unsigned long long field(const char *text, int number)
{
    for (int i = 3; i < number && text; i++)
        text = strchr(text + 1, ' ');
    return text ? strtoull(text + 1, NULL, 10) : 0;
}

/* "4711 (any (name) at all) S parent group ...": see proc(5). */
static bool read_process(const char *pid, struct process *ret_process)
{
    char path[64], text[STAT_MAX];
    const char *at;
    char state;
    ssize_t len;
    int fd;

    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    len = read(fd, text, sizeof text - 1);
    close(fd);
    if (len <= 0)
        return false;
    text[len] = 0;
    at = strrchr(text, ')');
    if (!at || at[1] != ' ' || !at[2])
        return false;

    at++; /* at the space before the third field */
    state = at[1];
    *ret_process = (struct process){
        .pid = (pid_t)strtol(pid, NULL, 10),
        .parent = (pid_t)field(at, 4),
        .group = (pid_t)field(at, 5),
        .session = (pid_t)field(at, 6),
        .began = field(at, 22),
        /* The first thread of a process may end before the others: then it looks like a zombie. */
        .ended = state == 'X' || (state == 'Z' && field(at, 20) <= 1),
        .stopped = state == 'T' || state == 't',
        .blocked = state == 'D',
    };
    return true;
}

static bool is_one_of(const pid_t *pids, size_t count, pid_t pid)
{
    for (size_t i = 0; i < count; i++)
        if (pids[i] == pid)
            return true;
    return false;
}

static bool parent_is_ours(const struct processes *all, const struct process *one)
{
    struct process wanted = { .pid = one->parent };
    const struct process *parent;

    if (one->parent == getpid())
        return true;
    parent = bsearch(&wanted, all->items, all->count, sizeof *all->items, by_pid);
    return parent && parent->ours;
}

/* Mark all descendants: every child of a marked process, until there are no more. Children mostly
 * have larger numbers than their parents, so one or two rounds are enough. */
static void mark_ours(const struct kin *kin, const struct kin_choice *choice, struct processes *all)
{
    bool more = true;

    while (more) {
        more = false;
        for (size_t i = 0; i < all->count; i++) {
            struct process *one = &all->items[i];

            if (one->ours || !parent_is_ours(all, one) ||
                is_one_of(kin->strangers, kin->stranger_count, one->pid) ||
                is_one_of(choice->but_trees, choice->tree_count, one->pid))
                continue;
            one->ours = more = true;
        }
    }
}

/* Send to exactly this process: its number may have been given to another one since. 0, ESRCH or
 * EPERM. */
static int send_to(const struct process *process, int number)
{
    int fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    struct process now;
    char pid[24];
    long sent = -1;
    int error = ESRCH;

    if (fd < 0 && errno == ESRCH)
        return ESRCH;
    snprintf(pid, sizeof pid, "%d", (int)process->pid);
    if (read_process(pid, &now) && now.began == process->began) {
        sent = fd >= 0 ? syscall(SYS_pidfd_send_signal, fd, number, NULL, 0)
                       : kill(process->pid, number); /* out of descriptors */
        error = sent == 0 ? 0 : errno;
    }
    if (fd >= 0)
        close(fd);
    return error;
}
