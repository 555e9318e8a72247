/* SPDX-License-Identifier: MIT */
/*
 * One thread takes and gives back one name on a database server, in each of the three modes; against
 * the same by hand: an upsert and an update of one row, the server's own advisory lock, a transaction
 * that selects a row for update. Same server, same durability.
 */
#include "cost.h"
#include "measures.h"
#include "ours.h"
#include "rounds.h"
#include "sql.h"

#define ROUND_S 0.3
#define STRIDE  4

enum { LEASE, SESSION, ROW, MODES };

struct side {
    hf_store *store;
    hf_acquire_request request;
    const struct sql_kind *kind;
    struct sql_raw *raw;
};

static void step_ours(void *arg)
{
    struct side *side = arg;

    ours_release(ours_acquire(side->store, &side->request));
}

static void step_upsert(void *arg)
{
    struct side *side = arg;

    side->kind->upsert(side->raw);
    side->kind->clear(side->raw);
}

static void step_session(void *arg)
{
    struct side *side = arg;

    side->kind->session_lock(side->raw);
    side->kind->session_unlock(side->raw);
}

static void step_row(void *arg)
{
    struct side *side = arg;

    side->kind->row_lock(side->raw);
    side->kind->row_unlock(side->raw);
}

static double round_ours(void *arg, double seconds)
{
    return rounds_loop(step_ours, arg, seconds, STRIDE);
}

static double round_upsert(void *arg, double seconds)
{
    return rounds_loop(step_upsert, arg, seconds, STRIDE);
}

static double round_session(void *arg, double seconds)
{
    return rounds_loop(step_session, arg, seconds, STRIDE);
}

static double round_row(void *arg, double seconds)
{
    return rounds_loop(step_row, arg, seconds, STRIDE);
}

static double count_statements(void *arg)
{
    const struct side *side = arg;

    return side->kind->statements(side->raw);
}

static void measure(struct bench *bench, const struct sql_kind *kind)
{
    static const char *const modes[MODES] = { "lease", "session", "row" };
    static const char *const what[MODES] = { "acquire+release, mode=lease", "mode=session",
                                             "mode=row" };
    static const char *const against[MODES] = { "upsert + update, by hand", "the server's lock",
                                                "SELECT FOR UPDATE, COMMIT" };
    static double (*const by_hand[MODES])(void *, double) = { round_upsert, round_session,
                                                              round_row };
    static struct rounds rounds[MODES];
    static struct side side;
    struct sql_server *server = sql_server_start(bench, kind);
    const struct contest_server counted = { .commands = count_statements,
                                            .server = &side,
                                            .word = "statements",
                                            .ports = { server->port } };

    side.kind = kind;
    side.raw = sql_open(server);
    side.request = ours_request(OURS_NAME, 0);
    for (int i = 0; i < MODES; i++) {
        const struct contender contenders[] = { { round_ours, &side }, { by_hand[i], &side } };

        side.store = ours_open_url(sql_url(server, modes[i]));
        rounds_run(bench, 1.0 / MODES, ROUND_S, contenders, 2, &rounds[i]);
        rounds_rates(bench, &rounds[i], 0, what[i], 1, against[i],
                     (struct target){ AT_LEAST, i == ROW ? 0.85 : 0.92, 0, false });
        ours_close(side.store);
    }
    side.store = ours_open_url(sql_url(server, modes[LEASE]));
    cost_rows(bench, &counted, step_ours, step_upsert, &side, against[LEASE], 2.05, 0);
    ours_close(side.store);
    kind->close(side.raw);
    sql_server_stop(server);
}

void measure_postgres_pair(struct bench *bench)
{
    measure(bench, &sql_postgres);
}

void measure_mariadb_pair(struct bench *bench)
{
    measure(bench, &sql_mariadb);
}
