/* SPDX-License-Identifier: MIT */
/* The one table of verbs and options. To add an option: a field in struct args, a row here. */
#include "table.h"
#include "holdfast/primitives.h"

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
#define LIST(letter, name, what, field, help)                    \
    {                                                            \
        letter, name, VALUE_LIST, what, 0, 0, FIELD(field), help \
    }
#define SECRET(letter, name, what, field, help)                    \
    {                                                              \
        letter, name, VALUE_SECRET, what, 0, 0, FIELD(field), help \
    }
#define STORES_ROW                                                                             \
    {                                                                                          \
        'S', "store", VALUE_SECRETS, "URL|PROFILE", 0, 0, FIELD(stores),                       \
            "which store; may be repeated (else HOLDFAST_STORE, the config file, the default)" \
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

#define NAME_ROW TEXT(0, "name", "NAME", name, "the name, if it begins with a dash")
#define WAIT_ROWS                                                                       \
    NAME_ROW, FLAG('n', "nonblock", nonblock, "do not wait: exit if the name is busy"), \
        DURATION('w', "wait", wait_ms, "wait at most D (default: for ever)"),           \
        NUMBER('E', "conflict-exit-code", "N", 0, 255, busy_exit,                       \
               "exit with N if it was not acquired (default 75; 0: silently)")
#define LABEL_ROW \
    TEXT(0, "label", "TEXT", label, "a text about this holder, which `ls` and `show` print")
#define ACQUIRE_ROWS                                                                        \
    WAIT_ROWS, FLAG('s', "shared", shared, "read-write lock: share it with other readers"), \
        FLAG('x', "exclusive", exclusive, "read-write lock: the only writer"),              \
        FLAG(0, "upgradeable", upgradeable,                                                 \
             "read-write lock: a reader that `convert` can make the writer"),               \
        NUMBER(0, "slots", "N", 1, HF_CAPACITY_MAX, slots, "semaphore: at most N at once"), \
        NUMBER(0, "permits", "K", 1, HF_CAPACITY_MAX, permits,                              \
               "semaphore: take K of the slots (default 1)"),                               \
        DURATION(0, "min-valid", min_valid_ms,                                              \
                 "refuse a lease that is valid for less than D when it is granted"),        \
        DURATION(0, "lock-delay", lock_delay_ms,                                            \
                 "if the lease expires, keep the name closed for another D"),               \
        LABEL_ROW
/* Of every verb that runs a command under a lease. */
#define SHELL_ROW \
    TEXT('c', "command", "TEXT", shell_text, "let /bin/sh run TEXT, in place of -- COMMAND")
#define COMMAND_ROWS                                                                        \
    SHELL_ROW, DURATION(0, "max-hold", max_hold_ms, "end the lease, and COMMAND, after D"), \
        CHOICE(0, "on-lost", "term|kill|warn", on_lost,                                     \
               "what to do to COMMAND when the lease is lost (default term)"),              \
        DURATION(0, "kill-after", kill_after_ms,                                            \
                 "time between TERM and KILL (default 5s, or less to fit the ttl)"),        \
        NUMBER(0, "status-fd", "FD", 0, INT_MAX, status_fd,                                 \
               "write status lines to this descriptor, one JSON object each")
#define TTL_ROW \
    DURATION(0, "ttl", ttl_ms, "let the lease end D after the last renewal (at least 1s)")
#define LEASE_ROW SECRET(0, "lease", "HANDLE", lease, "the handle that `lock` printed")

/* ---- options ------------------------------------------------------------------ */

const struct option_def global_options[] = {
    SECRET('S', "store", "URL|PROFILE", store,
           "which store (else HOLDFAST_STORE, the config file, the embedded default)"),
    DURATION(0, "open-timeout", open_ms,
             "give up reaching the store after D (default 5s, or -w if that is less)"),
    FLAG(0, "json", json, "print JSON; 64-bit numbers are strings"),
    FLAG('q', "quiet", quiet, "print nothing but errors"),
    FLAG('v', "verbose", verbose, "print more: the store in use, the token, how long it took"),
    CHOICE(0, "color", "auto|always|never", color, "colours on standard output"),
    FLAG('h', "help", help, "print help and exit"),
    FLAG(0, "version", version, "print the version and exit"),
};
const size_t global_option_count = COUNT(global_options);

static const struct option_def run_options[] = {
    ACQUIRE_ROWS,
    LIST(0, "also", "NAME", also, "acquire this name too: all of them or none (may be repeated)"),
    LIST(0, "any", "NAME,...", any, "instead of NAME: acquire whichever becomes free first"),
    LIST(0, "cell", "CELL=TEXT", cells,
         "put TEXT into CELL while the lease is held (may be repeated)"),
    TTL_ROW,
    DURATION(0, "min-hold", min_hold_ms,
             "keep NAME held for at least D, even if COMMAND ends earlier"),
    TEXT(0, "on-wanted", "SIGNAL", on_wanted, "send COMMAND this signal when others wait for NAME"),
    TEXT(0, "yield-signal", "SIGNAL", yield_signal,
         "on this signal, if others wait: pause COMMAND, yield, and resume it"),
    COMMAND_ROWS,
    CHOICE(0, "log", "text|json", log,
           "json: all messages as JSON, one object per line, with times"),
    TEXT(0, "metrics-file", "FILE", metrics_file,
         "at the end, write the run's metrics there, for Prometheus' node_exporter"),
};

static const struct option_def once_options[] = {
    DURATION(0, "for", mark_ms, "the mark lasts for D; after that COMMAND may run again"),
    FLAG(0, "forget", forget, "delete the mark and run nothing: COMMAND may run again"),
    WAIT_ROWS,
    LABEL_ROW,
    TTL_ROW,
    COMMAND_ROWS,
};

static const struct option_def elect_options[] = {
    TEXT(0, "value", "TEXT", value, "the value that observers see, for example an address"),
    FLAG(0, "again", again, "campaign again after leadership was lost"),
    FLAG(0, "observe", observe, "run nothing: print the leader and each change"),
    WAIT_ROWS,
    LABEL_ROW,
    TTL_ROW,
    COMMAND_ROWS,
};

static const struct option_def join_options[] = {
    TEXT(0, "value", "TEXT", value, "the value that other members see, for example an address"),
    WAIT_ROWS,
    TTL_ROW,
    COMMAND_ROWS,
};

static const struct option_def members_options[] = {
    NAME_ROW,
    FLAG(0, "watch", watch, "continue, and print each member that joins or leaves"),
};

#define WHO_ROWS                                                                       \
    TEXT(0, "as", "WHO", who, "the name of this participant (default: HOST:PID)"),     \
        DURATION(0, "ttl", ttl_ms,                                                     \
                 "the others notice D after its death (default 30s with a server, at " \
                 "least 1s)")

static const struct option_def latch_options[] = {
    NUMBER(0, "count", "N", 1, HF_PARTICIPANTS_MAX, count,
           "create the latch: it opens when N have counted down"),
    FLAG(0, "down", down, "count down once; with COMMAND: after it has succeeded"),
    FLAG(0, "wait", await, "wait until it is open"),
    FLAG(0, "remove", remove, "delete the latch"),
    WHO_ROWS,
    NAME_ROW,
    FLAG('n', "nonblock", nonblock, "do not wait: only say whether it is open"),
    DURATION('w', "within", wait_ms, "wait at most D (default: for ever)"),
    NUMBER('E', "conflict-exit-code", "N", 0, 255, busy_exit,
           "exit with N if it did not open in time (default 75; 0: silently)"),
    COMMAND_ROWS,
};

static const struct option_def barrier_options[] = {
    NUMBER(0, "parties", "N", 1, HF_PARTICIPANTS_MAX, parties, "the number of participants"),
    WHO_ROWS,
    WAIT_ROWS,
    COMMAND_ROWS,
};

static const struct option_def lock_options[] = {
    ACQUIRE_ROWS,
    DURATION(0, "ttl", ttl_ms, "let the lease end after D (default 30s, at least 1s)"),
    NUMBER(0, "for", "PID", 1, INT_MAX, for_pid,
           "keep the lease renewed in the background while process PID lives"),
};

static const struct option_def lock_sql_options[] = {
    NAME_ROW,
    FLAG('n', "nonblock", nonblock,
         "SQL that does not wait: it returns 0 or no row if the name is busy"),
    FLAG('s', "shared", shared, "share the name with other readers"),
    FLAG('x', "exclusive", exclusive, "exclude all others (the default)"),
};

static const struct option_def renew_options[] = {
    NAME_ROW,
    LEASE_ROW,
    DURATION(0, "ttl", ttl_ms, "the lease ends D from now (default: the ttl as before)"),
};

static const struct option_def convert_options[] = {
    NAME_ROW,
    LEASE_ROW,
    FLAG('s', "shared", shared, "make it a reader, at once"),
    FLAG('x', "exclusive", exclusive, "make it the writer, when the other readers have left"),
    FLAG(0, "upgradeable", upgradeable, "make it the upgradeable reader, at once"),
    FLAG('n', "nonblock", nonblock, "do not wait: exit if there are other readers"),
    DURATION('w', "wait", wait_ms, "wait at most D (default: for ever)"),
    NUMBER('E', "conflict-exit-code", "N", 0, 255, busy_exit,
           "exit with N if it was not converted (default 75; 0: silently)"),
};

static const struct option_def unlock_options[] = { NAME_ROW, LEASE_ROW };
static const struct option_def show_options[] = {
    NAME_ROW,
    FLAG(0, "check", check, "exit with 75 unless the name is free"),
};

static const struct option_def wait_options[] = {
    NAME_ROW,
    DURATION('w', "wait", wait_ms, "wait at most D (default: for ever)"),
    NUMBER('E', "conflict-exit-code", "N", 0, 255, busy_exit,
           "exit with N if it is not free in time (default 75; 0: silently)"),
};

static const struct option_def guard_options[] = {
    NAME_ROW,
    NUMBER(0, "token", "T", 1, TOKEN_MAX, token,
           "the token to present (default: HOLDFAST_TOKEN, as `run` sets it)"),
    TEXT(0, "set", "VALUE", set, "write VALUE (\"-\": standard input) in the same step"),
};

static const struct option_def limit_options[] = {
    NAME_ROW,
    TEXT(0, "rate", "N/D", rate, "N permits in D, as in 10/1m"),
    CHOICE(0, "algorithm", "fixed|sliding|bucket", algorithm,
           "how permits are counted (default fixed)"),
    NUMBER(0, "burst", "N", 1, HF_CAPACITY_MAX, burst,
           "bucket: at most N at once (default: as in --rate)"),
    NUMBER(0, "permits", "K", 1, HF_CAPACITY_MAX, permits,
           "take K permits, all or none (default 1)"),
    FLAG('n', "nonblock", nonblock, "do not wait: exit if there are too few permits"),
    DURATION('w', "wait", wait_ms, "wait at most D; a longer wait is refused at once"),
    NUMBER('E', "conflict-exit-code", "N", 0, 255, busy_exit,
           "exit with N if it was refused (default 75; 0: silently)"),
    SHELL_ROW,
    FLAG(0, "look", look, "print the rule and what is left, and take nothing; needs no --rate"),
    TEXT(0, "set", "N/D", set, "set rate and period in the store; they replace every --rate"),
    FLAG(0, "reset", reset, "delete what --set has set: --rate counts again"),
};

static const struct option_def ls_options[] = {
    FLAG('1', "names", names_only, "print only the names, one per line"),
    FLAG('0', "null", names_raw, "print only the names, byte for byte, with a NUL after each"),
};

static const struct option_def top_options[] = {
    STORES_ROW,
    FLAG(0, "once", once, "print the current state once, and exit; with --json as JSON"),
};

static const struct option_def lab_options[] = {
    SECRET('S', "store", "URL|PROFILE", store,
           "your own Redis server (default: the experiment starts its servers)"),
    CHOICE(0, "lang", "en|zh", lang, "English or Chinese (default: that of the environment)"),
    NUMBER(0, "repeat", "N", 1, 10000, repeat,
           "run each way N times, and count how often it breaks"),
    FLAG(0, "code", code, "print the code of each way below its picture"),
    TEXT(0, "svg", "FILE", svg, "write the picture to FILE too"),
    TEXT(0, "html", "FILE", html,
         "write a page with steps to click through, and the code, to FILE"),
    TEXT(0, "all", "DIR", gallery, "run all of them, and write a gallery with an index to DIR"),
};

static const struct option_def serve_options[] = {
    STORES_ROW,
    TEXT(0, "listen", "HOST:PORT|unix:PATH", listen, "where to listen (127.0.0.1:7411)"),
    TEXT(0, "tokens", "FILE", tokens,
         "lines of RIGHTS TOKEN NAME; without it every client may only read"),
    LIST(0, "host", "NAME", hosts, "another host name that clients may use (may be repeated)"),
    TEXT(0, "cert", "FILE", cert, "TLS: the certificate"),
    TEXT(0, "key", "FILE", key, "TLS: its key"),
    FLAG(0, "allow-insecure", allow_insecure,
         "listen on other addresses without TLS or without tokens"),
    NUMBER(0, "connections", "N", 4, 100000, connections, "at most N connections at a time (1000)"),
    NUMBER(0, "leases", "N", 1, 1000000, leases, "at most N leases of one token (1000)"),
    NUMBER(0, "metrics-names", "N", 0, 10000, metrics_names,
           "separate series for the first N names of a store (0)"),
};

static const struct option_def break_options[] = {
    NAME_ROW,
    NUMBER(0, "token", "T", 1, TOKEN_MAX, token,
           "the token of the lease to end, as `show` prints it"),
};

static const struct option_def resize_options[] = {
    NAME_ROW,
    NUMBER(0, "slots", "N", 1, HF_CAPACITY_MAX, slots, "set the size to N, whatever requests say"),
    FLAG(0, "reset", reset, "let requests set the size again, as soon as the name is unused"),
};

static const struct option_def ask_options[] = {
    NAME_ROW,
    TEXT(0, "text", "TEXT", ask_text, "the text for the holder (default: who asks)"),
    DURATION('w', "wait", wait_ms,
             "wait at most D for the release; exit code 75 if it is still held"),
};

static const struct option_def engines_options[] = {
    FLAG(0, "matrix", matrix, "print what each engine can and cannot do, with reasons"),
};

static const struct option_def redlock_options[] = {
    FLAG(0, "force", force, "join: continue although too few nodes remember the tokens given out"),
};

static const struct option_def cell_options[] = {
    TEXT(0, "version", "V", cell_version,
         "cas, rm: only if it has version V (cas 0: there is none)"),
    DURATION(0, "ttl", ttl_ms, "put, cas, commit: the cell is deleted after D (at least 1s)"),
};

static const struct option_def counter_options[] = {
    NAME_ROW,
    TEXT(0, "add", "N", add, "add N, which may be negative"),
    TEXT(0, "set", "N", set, "set it to N"),
    TEXT(0, "if", "M", expected, "--set: only if it is M; else exit code 75"),
    FLAG(0, "delete", delete, "delete it: it is 0 then"),
};

static const struct option_def script_options[] = {
    TEXT('e', "expression", "TEXT", expression,
         "run, load, exists: the script itself, instead of FILE"),
    FLAG(0, "read-only", read_only, "run: let the server refuse what the script writes"),
    DURATION('w', "wait", wait_ms, "kill: wait at most D for a server that does not answer (10s)"),
};

/* ---- verbs ---------------------------------------------------------------------- */

static const struct option_def doctor_options[] = {
    FLAG(0, "sql", sql, "print the SQL that creates the tables; connects to no server"),
    CHOICE(0, "lang", "en|zh", lang, "English or Chinese (default: that of the environment)"),
};
static const struct option_def faults_options[] = {
    NUMBER(0, "minutes", "N", 1, 1440, minutes, "how long to run, in minutes (1)"),
    FLAG(0, "yes", yes, "do not ask for confirmation"),
};
static const struct option_def init_options[] = {
    TEXT(0, "group", "GROUP", group, "for the members of GROUP, who must trust each other"),
};
#define NO_OPTIONS    NULL, 0
#define OPTIONS(rows) rows, COUNT(rows)

const struct verb verbs[] = {
    { "run", OPERAND_COMMAND, "NAME|--any NAME,... [OPTION...] -- COMMAND [ARG...]",
      "run a command while holding a lock",
      "Waits until NAME is free, acquires it, runs COMMAND (without a shell), releases NAME and "
      "exits\n"
      "with COMMAND's status, or 128 + the signal that ended it. COMMAND gets HOLDFAST_NAME,\n"
      "HOLDFAST_TOKEN and HOLDFAST_STORE. If the lease is lost while COMMAND runs, COMMAND is\n"
      "ended and the exit code is 76. A `run` of the same name inside COMMAND does not wait for\n"
      "the outer one: it runs under its lease.\n",
      OPTIONS(run_options), verb_run },
    { "once", OPERAND_COMMAND, "NAME [--for D] [OPTION...] -- COMMAND [ARG...]",
      "run a command if nobody has done it yet",
      "Runs COMMAND under the lock NAME, as `run` does, unless COMMAND has succeeded before: then "
      "it\n"
      "says so and exits with 0. When COMMAND exits with 0, a mark is written to the store. "
      "Without\n"
      "the mark (COMMAND failed, lost its lease, or its machine crashed) the next `once` runs it "
      "again.\n",
      OPTIONS(once_options), verb_once },
    { "elect", OPERAND_COMMAND, "NAME [OPTION...] -- COMMAND [ARG...]",
      "run a command only while leading",
      "Waits until it leads NAME, publishes its value in the store, and runs COMMAND as `run` "
      "does.\n"
      "COMMAND is ended before another candidate can lead. When COMMAND ends, leadership ends. "
      "With --observe it prints the leader instead, and every change.\n",
      OPTIONS(elect_options), verb_elect },
    { "join", OPERAND_COMMAND, "GROUP [--value TEXT] [OPTION...] [-- COMMAND [ARG...]]",
      "be a member of a group while a command runs",
      "Joins GROUP, runs COMMAND as `run` does, and leaves. Without COMMAND it stays a member "
      "until\n"
      "a signal ends it. `members` lists the members that are alive.\n",
      OPTIONS(join_options), verb_join },
    { "members", OPERAND_NAME, "GROUP [--watch]", "list the members of a group that are alive",
      "Prints the value of each member, in the order of joining. With --watch it continues, and\n"
      "prints joins and leaves as they happen.\n",
      OPTIONS(members_options), verb_members },
    { "latch", OPERAND_COMMAND, "NAME [--count N|--down [--as WHO] [-- COMMAND]|--wait|--remove]",
      "wait until a number of participants have done their part",
      "--count creates a latch. A participant counts once, however often it counts down. When N "
      "have\n"
      "counted down, the latch stays open and --wait returns. With a COMMAND, --down counts after "
      "it\n"
      "has succeeded; if COMMAND fails or dies, the latch is broken and --wait exits with 76.\n"
      "Without any of these options it prints the state of the latch.\n",
      OPTIONS(latch_options), verb_latch },
    { "barrier", OPERAND_COMMAND, "NAME --parties N [OPTION...] [-- COMMAND [ARG...]]",
      "wait for other participants, and continue together",
      "Waits until N participants have come. With COMMAND they start together, and none exits "
      "before\n"
      "all COMMANDs have ended. If a participant dies, all others are told, and exit with 76.\n",
      OPTIONS(barrier_options), verb_barrier },
    { "lock", OPERAND_NAME, "NAME [OPTION...]", "take a lease that outlives this command",
      "Acquires NAME and prints the handle of the lease, which `renew` and `unlock` need. The "
      "lease\n"
      "ends after its ttl unless it is renewed: by `renew` or, with --for PID, by a background\n"
      "process until PID has ended.\n",
      OPTIONS(lock_options), verb_lock },
    { "lock-sql", OPERAND_NAME, "NAME [-s|-x] [-n]",
      "print the SQL that locks a name inside your own transaction",
      "Prints statements for a transaction on your own connection. The lock is that of "
      "mode=session\n"
      "or mode=row of the store -S, and ends with the transaction. The last statement returns a "
      "row\n"
      "with a 1 if the name is locked. Connects to no server.\n",
      OPTIONS(lock_sql_options), verb_lock_sql },
    { "renew", OPERAND_NAME, "NAME --lease HANDLE [--ttl D]", "prolong a lease that `lock` took",
      NULL, OPTIONS(renew_options), verb_renew },
    { "convert", OPERAND_NAME, "NAME --lease HANDLE -s|-x|--upgradeable [-n|-w D]",
      "change the kind of a read-write lease that `lock` took",
      "Makes a writer a reader, or an upgradeable reader the writer; no other writer comes in\n"
      "between. Prints the new handle of the lease; the old handle has ended.\n"
      "Exit code 75: there are other readers, and the lease is as before.\n",
      OPTIONS(convert_options), verb_convert },
    { "unlock", OPERAND_NAME, "NAME --lease HANDLE", "release a lease that `lock` took",
      "Releases only the lease with this handle, never the lease of another holder.\n",
      OPTIONS(unlock_options), verb_unlock },
    { "limit", OPERAND_COMMAND,
      "NAME --rate N/D [OPTION...] [-- COMMAND [ARG...]] | NAME --look|--set N/D|--reset",
      "run a command no more often than a rate allows",
      "Waits for a permit of the rate limit NAME, then executes COMMAND in its own place (without "
      "a\n"
      "shell). Without COMMAND it only takes the permit. All users of a NAME share its permits, "
      "and\n"
      "must give the same --rate, --algorithm and --burst. --set changes rate, period and burst "
      "for\n"
      "all of them, also while the limit is in use.\n"
      "\n"
      "fixed    N in a window of D, which begins with the first call after the last window\n"
      "sliding  never more than N in any D (at most 4096)\n"
      "bucket   at most --burst at once, refilled at N in D\n",
      OPTIONS(limit_options), verb_limit },
    { "ls", OPERAND_GLOB, "[GLOB]", "list the names that are held or waited for", NULL,
      OPTIONS(ls_options), verb_ls },
    { "show", OPERAND_NAME, "NAME [--check]", "show every holder and every waiter of one name",
      NULL, OPTIONS(show_options), verb_show },
    { "wait", OPERAND_NAME, "NAME [-w D]", "wait until nobody holds a name",
      "Does not queue, and holds nothing: the name may be held again when this returns.\n"
      "Exit code 0: it is free, 75: it is still held after -w.\n",
      OPTIONS(wait_options), verb_wait },
    { "watch", OPERAND_GLOB, "[GLOB]", "print changes as they happen", NULL, NO_OPTIONS,
      verb_watch },
    { "top", OPERAND_GLOB, "[--once] [GLOB]", "see names, holders and waiters live, in a terminal",
      "Keys: j k or arrows move, Enter opens a name, / filters, s sorts, g graph, d doctor, a "
      "asks\n"
      "the holder, b breaks its lease, 1 to 9 choose a store, ? shows all keys, q quits.\n",
      OPTIONS(top_options), verb_top },
    { "serve", OPERAND_NONE, "[--listen HOST:PORT|unix:PATH] [--tokens FILE]",
      "show stores on a live page, in metrics and through an HTTP API",
      "By default on this machine only, and read only. Breaking leases and taking leases need "
      "tokens;\n"
      "the file of --tokens says which token has which rights.\n",
      OPTIONS(serve_options), verb_serve },
    { "lab", OPERAND_EXPERIMENT, "[NAME | --all DIR]",
      "see what goes wrong with locks: experiments on real servers, drawn",
      "Lists the experiments, or runs one: the naive way and ours, each with real processes on a "
      "real\n"
      "server of its own. A checker reads what happened and says whether the lock broke. Exit code "
      "0:\n"
      "everything went as described; 1: something else happened; 69: a server is not installed.\n",
      OPTIONS(lab_options), verb_lab },
    { "deadlocks", OPERAND_NONE, "", "show requests that wait for each other in a circle",
      "Exit code 0: there is no circle, 1: there is one. One member of each circle gets an error "
      "after\n"
      "about a second, and stops waiting.\n",
      NO_OPTIONS, verb_deadlocks },
    { "break", OPERAND_NAME, "NAME --token T", "end exactly one lease by force",
      "Ends the lease that holds NAME with token T now, whatever process owns it. Its holder is\n"
      "told. If that lease has ended already, nothing happens and the exit code is 75.\n",
      OPTIONS(break_options), verb_break },
    { "resize", OPERAND_NAME, "NAME --slots N | --reset", "set the size of a semaphore",
      "From now on NAME is a semaphore of N slots, whatever --slots of `run` and `lock` say, also\n"
      "while it is in use. No holder loses its lease: if more slots are held than N, new requests\n"
      "wait. If N is larger than before, waiters that fit are granted at once. The store keeps "
      "the\n"
      "size until the next --slots or --reset.\n",
      OPTIONS(resize_options), verb_resize },
    { "ask", OPERAND_NAME, "NAME [--text TEXT] [-w D]", "ask the holder to release it",
      "Tells the holder of NAME that another client wants it, and does not queue. A holder hears "
      "it if\n"
      "it is `run` with --on-wanted or --yield-signal, or a program that asked for it. Exit code "
      "0:\n"
      "told, and with -w released in time; 75: still held; 1: the name is free; 69: the holder "
      "does\n"
      "not listen.\n",
      OPTIONS(ask_options), verb_ask },
    { "init", OPERAND_DIR, "[--group GROUP] DIR",
      "create an embedded store, for a group if told so",
      "Creates DIR with mode 0700 (with --group: 2770) if it does not exist, creates a store in "
      "it, and\n"
      "prints its URL. Through the store, the members of GROUP can run code as each other.\n",
      OPTIONS(init_options), verb_init },
    { "doctor", OPERAND_URL, "[URL|PROFILE]", "check whether a store is safe for what it promises",
      "Exit code 0: fine, 1: warnings, 2: bad; 69, 77 or 78 if the store cannot be opened.\n",
      OPTIONS(doctor_options), verb_doctor },
    { "engines", OPERAND_ENGINE, "[ENGINE] [--matrix]",
      "show what each engine promises, and what it cannot do",
      "ENGINE is the name of an engine or a scheme of its URLs: redis, file, postgresql. Default: "
      "all.\n",
      OPTIONS(engines_options), verb_engines },
    { "redlock", OPERAND_ACTION, "status|join [--force] [NODE]",
      "show the nodes of a Redlock store, and heal them",
      "status  one line per node: is it part of the cluster, does it vote, its epoch and counters\n"
      "join    heal every node that lost its data (or NODE), after waiting until every lease that "
      "it\n"
      "        may have forgotten has ended. Open clients do the same automatically.\n",
      OPTIONS(redlock_options), verb_redlock },
    { "cell", OPERAND_DEED, "get|put|cas|rm|watch|commit NAME [VALUE]",
      "read and write a few bytes that have a version",
      "get     print the bytes; exit code 1 if there is no such cell\n"
      "put     write VALUE (default: standard input), and print the new version\n"
      "cas     put, but only if the cell has version V; otherwise exit code 75\n"
      "rm      delete the cell; with --version only if it has that version, otherwise exit code "
      "75\n"
      "watch   print version and bytes now and after every change; \"-\": there is no cell\n"
      "commit  several cells in one step, all or nothing. Instead of NAME [VALUE], any number of\n"
      "        put NAME VERSION VALUE, rm NAME VERSION, check NAME VERSION.\n"
      "        VERSION: the version that the cell must have; 0: the cell must not exist; any.\n"
      "        Exit code 75 if a version does not match\n",
      OPTIONS(cell_options), verb_cell },
    { "counter", OPERAND_NAME, "NAME [--add N|--set N [--if M]|--delete]",
      "share a number: add to it, read it or set it",
      "Prints the value of the counter, which has 64 bits and begins with 0. A result out of "
      "range\n"
      "changes nothing and exits with 65.\n",
      OPTIONS(counter_options), verb_counter },
    { "guard", OPERAND_COMMAND, "NAME [--token T] [--set VALUE | -- COMMAND [ARG...]]",
      "present a token to a resource, which refuses stale tokens",
      "The resource NAME, a few bytes in the store, remembers the highest token that it has seen.\n"
      "A lower token is refused with exit code 76: its lease is not the latest. Otherwise the "
      "bytes\n"
      "are printed, or replaced by VALUE, or COMMAND is executed. All tokens of one resource must\n"
      "come from one lock.\n",
      OPTIONS(guard_options), verb_guard },
    { "script", OPERAND_SCRIPT, "run|load|exists|flush|kill [FILE|SHA...] [KEY...] [, ARG...]",
      "run a Lua script on a Redis server, or end one",
      "run     run FILE (\"-\": standard input), the script with this SHA-1, or the TEXT of -e, "
      "and\n"
      "        print its result; a lone comma separates keys from arguments. Exit code 65 if the\n"
      "        script fails, 66 if the server does not know that SHA-1\n"
      "load    send it to the server without running it, and print its SHA-1\n"
      "exists  say whether the server knows FILE, or all scripts with these SHA-1s. Exit code 1 if "
      "not\n"
      "flush   make the server forget all scripts\n"
      "kill    end the script that is running; Redis does not do so automatically\n",
      OPTIONS(script_options), verb_script },
    { "bench", OPERAND_RAW, "[ARG...]", "measure speed beside hand-written loops",
      "Runs the program holdfast-bench with these arguments; `holdfast bench --help` lists them.\n",
      NO_OPTIONS, verb_bench },
    { "faults", OPERAND_URL, "[--minutes N] [--yes] [URL|PROFILE]",
      "test a store while clients are killed and stopped",
      "For a test server of yours. Clients acquire and update as fast as they can, are killed and\n"
      "stopped, and their connections are cut. Nothing is done to the server, and what the "
      "clients\n"
      "made there is deleted at the end. Exit code 1: two held at once, or an update was lost.\n",
      OPTIONS(faults_options), verb_faults },
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

bool option_hidden(const struct verb *verb, const struct option_def *global)
{
    for (size_t i = 0; verb && i < verb->option_count; i++)
        if (strcmp(verb->options[i].name, global->name) == 0)
            return true;
    return false;
}
