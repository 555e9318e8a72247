/* SPDX-License-Identifier: MIT */
/*
 * What all verbs of the command share: the parsed command line, messages on
 * stderr, exit codes, standard output.
 *
 * A verb is one function, int verb_x(struct cli *), which returns the exit code.
 * It uses the library through the public header only, and the pure helpers of
 * util/text.h. Everything runs on the main thread but the line that shows what
 * a waiting `run` waits for (wait_line.c).
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "closest.h"
#include "holdfast/holdfast.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- exit codes (holdfast(1) documents them) ------------------------------ */

enum {
    EXIT_FINE = 0,
    EXIT_WARNED = 1, /* doctor, deadlocks */
    EXIT_ABSENT = 1, /* cell, latch, script, ask: there is none */
    EXIT_BAD = 2,    /* doctor only */
    EXIT_USAGE = 64,
    EXIT_MISMATCH = 65,
    EXIT_NO_INPUT = 66,
    EXIT_NO_STORE = 69,
    EXIT_INTERNAL = 70,
    EXIT_OUTPUT = 74,
    EXIT_BUSY = 75,
    EXIT_LOST = 76,
    EXIT_DENIED = 77,
    EXIT_CONFIG = 78,
    EXIT_CANNOT_EXECUTE = 126,
    EXIT_NOT_FOUND = 127,
    EXIT_SIGNAL_BASE = 128
};

/* The exit code of a library status; the one table of them is in exit.c. */
int exit_of(hf_status status);
/* "75": what it means; NULL: no exit code of ours. */
const char *exit_meaning(const char *number);

/* ---- the command line ------------------------------------------------------ */

enum color { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };
enum on_lost { ON_LOST_TERM, ON_LOST_KILL, ON_LOST_WARN };

struct texts {
    const char **items;
    size_t count;
};

/* Filled in by args.c through the table in table.c. Strings point into argv (or to a
 * copy, where the argument was a secret and was wiped). A duration of 0 and a
 * number of -1 mean: not given. */
struct args {
    char *store;
    bool json, quiet, verbose, help, version;
    int color;

    const char *name;           /* the operand: NAME, GLOB, URL, SHELL, VERB or ACTION */
    const char *node;           /* the one behind ACTION */
    const char *action, *value; /* of a verb with OPERAND_DEED: before and behind the name. Of one
                                   with OPERAND_SCRIPT: before the file, which is `name` */
    struct texts words;         /* of a verb with OPERAND_DEED whose action takes a list */
    const char *shell_text;     /* -c: `command` is a shell that runs it */
    char **command; /* the arguments after --, or after a file, NULL-terminated; NULL: none */

    bool nonblock, shared, exclusive, upgradeable, names_only, names_raw, force, forget, look,
        reset, delete;
    bool observe, again, watch, down, await, remove, sql, check, matrix;
    int64_t wait_ms, open_ms, ttl_ms, min_hold_ms, max_hold_ms, kill_after_ms, mark_ms;
    int64_t min_valid_ms, lock_delay_ms;
    int64_t busy_exit, slots, permits, status_fd, for_pid, token, burst, parties, count;
    int on_lost, algorithm, log; /* log: 1 is json */
    const char *metrics_file;
    const char *label, *rate, *who, *group, *ask_text;
    const char *on_wanted, *yield_signal; /* signals, as they were written */
    const char *cell_version;
    const char *add, *set, *expected; /* of a counter: any 64 bits, so they are text here */
    char *lease;
    struct texts also, any, cells;
    struct texts stores; /* of verbs that look at several */
    bool once;
    const char *listen, *tokens, *cert, *key; /* serve */
    struct texts hosts;
    bool allow_insecure;
    int64_t connections, leases, metrics_names;
    const char *svg, *html, *gallery; /* lab */
    int lang;                         /* -1: that of the environment */
    int64_t repeat;
    bool code;
    const char *expression; /* script: its text */
    struct texts more;      /* script: what comes behind the first FILE or SHA */
    bool read_only;
    bool yes; /* faults */
    int64_t minutes;
};

struct verb;

struct cli {
    const struct verb *verb;
    struct args args;
    bool stdout_closed; /* by the parent process: writing must be an error */
    bool stderr_tty;
};

/* Take argv apart. EXIT_FINE, or the exit code after a message. May overwrite secrets in argv. */
int args_parse(struct cli *cli, int argc, char **argv);

/* ---- messages --------------------------------------------------------------- */

/* From now on no message blocks: what cannot be written at once is written later, or dropped. */
void say_without_waiting(void);
/* From now on every message is a JSON object: {"time": ..., "event": "message", "text": ...}. */
void say_in_json(void);
/* Before we die of a signal: wait a moment until messages are written. exit() does so too. */
void say_drain(void);
/* Are there messages that could not be written yet? Any thread. */
bool say_is_late(void);
/* Bytes on stderr as they are. Any thread. */
void say_bytes(const char *bytes, size_t len);
/* "holdfast: ..." on stderr, in one write. Errors are said even with -q. */
__attribute__((format(printf, 1, 2))) void say_error(const char *format, ...);
/* Said unless -q. */
__attribute__((format(printf, 2, 3))) void say(const struct cli *cli, const char *format, ...);
/* Said with -v only. */
__attribute__((format(printf, 2, 3))) void say_more(const struct cli *cli, const char *format, ...);
/* A usage error of this verb, with a pointer to its help. Returns EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int usage_error(const struct cli *cli, const char *format,
                                                      ...);
/* Whether this verb, or every verb, has the option. */
bool takes_letter(const struct cli *cli, char letter);
/* Say what the library said. Returns exit_of(err->status). */
int say_failure(const hf_error *err);

#define SHOWN_MAX 100
/* `text` made safe for a terminal and for a message; a ring of static buffers. */
const char *shown(const char *text);

/* ---- standard output --------------------------------------------------------- */

/* Has everything been written? EXIT_FINE, or EXIT_OUTPUT after a message. */
int out_finish(const struct cli *cli);
/* A write has failed: out_finish() will say why. */
void out_failed(int error);
/* Is our output still read? Waits at most wait_ms for the end of its reader. In a pipeline we end when the reader does: that is no
 * error. */
bool out_is_read(int wait_ms);
/* Colours of standard output, "" where there are none. */
enum tone { TONE_OFF, TONE_HEAD, TONE_GOOD, TONE_WARN, TONE_BAD, TONE_FAINT };
const char *tone(const struct cli *cli, enum tone which);
/* Print any bytes, escaped so that they are safe on a terminal. */
void out_safe(const char *bytes, size_t len);

/* What the environment says of the language of messages: "zh_CN.UTF-8"; "": nothing. (lab.c) */
const char *lang_of_environment(void);

/* ---- programs of ours: program.c -------------------------------------------- */

/* Execute PROGRAM, beside us or in libexec. Returns only if that fails, with errno set. */
void program_execute(const char *program, char **arguments);
/* Likewise for a program of see/, which gets the stores (-S and those of --store) in a descriptor, as its first argument
 * "--stores-fd=N". Returns only if that fails, with an exit code. */
int program_see(struct cli *cli, const char *program, char **arguments);
/* Say why it could not be executed (errno). Returns an exit code. */
int program_missing(const char *program);

/* ---- names ------------------------------------------------------------------- */

/* Check that the NAME operand is given and valid. EXIT_FINE, or EXIT_USAGE after a message. */
int need_name(const struct cli *cli);

/* ---- memory: out of it is the end, with EXIT_INTERNAL -------------------------- */

void *must_alloc(size_t size);
char *must_strdup(const char *text);

#endif
