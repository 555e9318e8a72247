/* SPDX-License-Identifier: MIT */
/* The one table of verbs and options. To add an option: a field in struct args, a row here. */
#include "table.h"

#include <limits.h>
#include <string.h>
#include <sys/types.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define FIELD(name)  offsetof(struct args, name)
#define TOKEN_MAX    ((INT64_C(1) << 53) - 1)

#define FLAG(letter, name, field, help)                          \
    {                                                            \
        letter, name, VALUE_NONE, NULL, 0, 0, FIELD(field), help \
    }
#define TEXT(letter, name, what, field, help)                    \
    {                                                            \
        letter, name, VALUE_TEXT, what, 0, 0, FIELD(field), help \
    }
#define SECRET(letter, name, what, field, help)                    \
    {                                                              \
        letter, name, VALUE_SECRET, what, 0, 0, FIELD(field), help \
    }
#define DURATION(letter, name, field, help)                         \
    {                                                               \
        letter, name, VALUE_DURATION, "D", 0, 0, FIELD(field), help \
    }
#define NUMBER(letter, name, what, min, max, field, help)              \
    {                                                                  \
        letter, name, VALUE_NUMBER, what, min, max, FIELD(field), help \
    }
#define CHOICE(letter, name, what, field, help)                    \
    {                                                              \
        letter, name, VALUE_CHOICE, what, 0, 0, FIELD(field), help \
    }

/* ---- rows that several verbs share ------------------------------------------ */

#define NAME_ROW TEXT(0, "name", "NAME", name, "the name, where it would look like an option")
#define ACQUIRE_ROWS                                                                          \
    NAME_ROW, FLAG('n', "nonblock", nonblock, "do not wait: if it is busy, say so and exit"), \
        DURATION('w', "wait", wait_ms, "wait at most D (default: for ever)"),                 \
        NUMBER('E', "conflict-exit-code", "N", 0, 255, busy_exit,                             \
               "exit with N if it was not acquired (default 75; 0 says nothing)"),            \
        FLAG('s', "shared", shared, "read-write lock: share it with other readers"),          \
        FLAG('x', "exclusive", exclusive, "read-write lock: the one writer"),                 \
        NUMBER(0, "slots", "N", 1, HF_CAPACITY_MAX, slots, "semaphore: at most N at once"),   \
        NUMBER(0, "permits", "K", 1, HF_CAPACITY_MAX, permits,                                \
               "semaphore: take K of the slots (default 1)"),                                 \
        TEXT(0, "label", "TEXT", label, "what `ls` and `show` tell others about us")
#define LEASE_ROW SECRET(0, "lease", "HANDLE", lease, "the handle that `lock` printed")

/* ---- options ------------------------------------------------------------------ */

const struct option_def global_options[] = {
    SECRET('S', "store", "URL|PROFILE", store,
           "which store (else HOLDFAST_STORE, the config file, the embedded default)"),
    FLAG(0, "json", json, "print JSON; 64-bit numbers are strings"),
    FLAG('q', "quiet", quiet, "say nothing but errors"),
    FLAG('v', "verbose", verbose, "say more: the store in use, the token, how long it took"),
    CHOICE(0, "color", "auto|always|never", color, "colours on standard output"),
    FLAG('h', "help", help, "print help and exit"),
    FLAG(0, "version", version, "print the version and exit"),
};
const size_t global_option_count = COUNT(global_options);

static const struct option_def run_options[] = {
    ACQUIRE_ROWS,
    DURATION(0, "ttl", ttl_ms, "let the lease end D after the last renewal (at least 1s)"),
    DURATION(0, "min-hold", min_hold_ms, "hold it for at least D, even if COMMAND is quicker"),
    DURATION(0, "max-hold", max_hold_ms, "end the lease, and COMMAND, after D"),
    CHOICE(0, "on-lost", "term|kill|warn", on_lost,
           "what to do to COMMAND when the lease is lost (default term)"),
    DURATION(0, "kill-after", kill_after_ms,
             "time between TERM and KILL (default 5s, or less to fit the ttl)"),
    NUMBER(0, "status-fd", "FD", 0, INT_MAX, status_fd,
           "write one JSON object a line there about what happens"),
};

static const struct option_def lock_options[] = {
    ACQUIRE_ROWS,
    DURATION(0, "ttl", ttl_ms, "let the lease end after D (default 30s, at least 1s)"),
    NUMBER(0, "for", "PID", 1, INT_MAX, for_pid,
           "keep the lease renewed in the background while process PID lives"),
};

static const struct option_def renew_options[] = {
    NAME_ROW,
    LEASE_ROW,
    DURATION(0, "ttl", ttl_ms, "for D from now (default: as before)"),
};

static const struct option_def unlock_options[] = { NAME_ROW, LEASE_ROW };
static const struct option_def show_options[] = { NAME_ROW };

static const struct option_def ls_options[] = {
    FLAG('1', "names", names_only, "print the names only, one a line"),
};

static const struct option_def break_options[] = {
    NAME_ROW,
    NUMBER(0, "token", "T", 1, TOKEN_MAX, token,
           "the token of the lease to end, as `show` tells it"),
};

static const struct option_def redlock_options[] = {
    FLAG(0, "force", force, "join: go on although too few nodes remember the tokens given out"),
};

/* ---- verbs ---------------------------------------------------------------------- */

static const struct option_def doctor_options[] = {
    FLAG(0, "sql", sql, "print the SQL that makes the tables, and connect to nobody"),
};
#define NO_OPTIONS    NULL, 0
#define OPTIONS(rows) rows, COUNT(rows)

const struct verb verbs[] = {
    { "run", OPERAND_COMMAND, "NAME [OPTION...] -- COMMAND [ARG...]",
      "run a command while holding a lock",
      "Acquires NAME, waiting for it, runs COMMAND (no shell in between), releases NAME and exits\n"
      "with COMMAND's status, or 128 + the signal that ended it. COMMAND gets HOLDFAST_NAME,\n"
      "HOLDFAST_TOKEN and HOLDFAST_STORE. If the lease is lost while COMMAND runs, COMMAND is\n"
      "ended and the exit code is 76. A `run` of the same name inside COMMAND does not wait for\n"
      "the outer one: it runs under its lease.\n",
      OPTIONS(run_options), verb_run },
    { "lock", OPERAND_NAME, "NAME [OPTION...]", "take a lease that outlives this command",
      "Acquires NAME and prints the handle of the lease, which `renew` and `unlock` want. The\n"
      "lease ends by itself after its ttl unless it is renewed, by `renew` or, with --for PID,\n"
      "by a process in the background, until PID has ended.\n",
      OPTIONS(lock_options), verb_lock },
    { "renew", OPERAND_NAME, "NAME --lease HANDLE [--ttl D]", "prolong a lease that `lock` took",
      NULL, OPTIONS(renew_options), verb_renew },
    { "unlock", OPERAND_NAME, "NAME --lease HANDLE", "release a lease that `lock` took",
      "Only the handle frees a lease; nobody else's is ever touched.\n", OPTIONS(unlock_options),
      verb_unlock },
    { "ls", OPERAND_GLOB, "[GLOB]", "list the names that are held or waited for", NULL,
      OPTIONS(ls_options), verb_ls },
    { "show", OPERAND_NAME, "NAME", "show every holder and every waiter of one name", NULL,
      OPTIONS(show_options), verb_show },
    { "watch", OPERAND_GLOB, "[GLOB]", "print what changes, as it happens", NULL, NO_OPTIONS,
      verb_watch },
    { "break", OPERAND_NAME, "NAME --token T", "end exactly one lease by force",
      "Ends the lease that holds NAME with token T now, whoever owns it; its holder is told. If\n"
      "that lease has ended already, nothing happens and the exit code is 75.\n",
      OPTIONS(break_options), verb_break },
    { "doctor", OPERAND_URL, "[URL|PROFILE]", "is this store safe for what it promises?",
      "Exit code 0: fine, 1: warnings, 2: bad.\n", OPTIONS(doctor_options), verb_doctor },
    { "engines", OPERAND_NONE, "", "what each engine promises", NULL, NO_OPTIONS, verb_engines },
    { "redlock", OPERAND_ACTION, "status|join [--force] [NODE]",
      "look at the nodes of a Redlock store, and heal them",
      "status  one line a node: is it part of the cluster, does it vote, its epoch and counters\n"
      "join    heal every node that lost its data (or NODE), waiting until nothing can be held\n"
      "        any more that it forgot. Clients do the same by themselves while they are open.\n",
      OPTIONS(redlock_options), verb_redlock },
    { "bench", OPERAND_RAW, "[ARG...]", "measure speed against hand-written loops",
      "Runs the program holdfast-bench with these arguments; `holdfast bench --help` lists them.\n",
      NO_OPTIONS, verb_bench },
    { "completion", OPERAND_SHELL, "bash|zsh|fish", "print the completion script of a shell",
      "bash:  source <(holdfast completion bash)\n"
      "zsh:   holdfast completion zsh > a directory of $fpath/_holdfast\n"
      "fish:  holdfast completion fish > ~/.config/fish/completions/holdfast.fish\n",
      NO_OPTIONS, verb_completion },
    { "help", OPERAND_VERB, "[VERB]", "print help", NULL, NO_OPTIONS, verb_help },
};
const size_t verb_count = COUNT(verbs);

const struct verb *verb_find(const char *name)
{
    for (size_t i = 0; i < verb_count; i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}
