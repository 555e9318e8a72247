/* SPDX-License-Identifier: MIT */
/* ZooKeeper's library: see fake_zookeeper.h. */
#include "fake_zookeeper.h"

#include <sys/eventfd.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#define PENDING_MAX 64
#define WATCHES_MAX 32
#define CREATED_MAX 8
#define PATH_ROOM   1024

enum kind { VOID, STRING, STRING_STAT, STAT, DATA, LIST, MULTI };

struct pending {
    enum kind kind;
    union {
        void_completion_t on_void;
        string_completion_t on_string;
        string_stat_completion_t on_string_stat;
        stat_completion_t on_stat;
        data_completion_t on_data;
        strings_completion_t on_list;
    };
    const void *data;
    char path[PATH_ROOM];
    bool sequential;
    watcher_fn watcher;
    void *watch;
    int count;
    const zoo_op_t *ops;
    zoo_op_result_t *results;
};

struct watch {
    watcher_fn watcher;
    void *context;
};

struct _zhandle {
    watcher_fn on_session;
    void *context;
    int state, fd;
    struct pending pending[PENDING_MAX];
    size_t pending_count;
    struct watch watches[WATCHES_MAX];
    size_t watch_count;
};

const int ZOOKEEPER_WRITE = 1, ZOOKEEPER_READ = 2;
const int ZOO_PERM_READ = 1, ZOO_PERM_ALL = 31;
const int ZOO_PERSISTENT = 0, ZOO_EPHEMERAL_SEQUENTIAL = 3, ZOO_CONTAINER = 4;
const int ZOO_EXPIRED_SESSION_STATE = -112, ZOO_AUTH_FAILED_STATE = -113;
const int ZOO_ASSOCIATING_STATE = 2, ZOO_CONNECTED_STATE = 3, ZOO_NOTCONNECTED_STATE = 999;
const int ZOO_DELETED_EVENT = 2, ZOO_SESSION_EVENT = -1;
struct Id ZOO_ANYONE_ID_UNSAFE = { "world", "anyone" };
struct Id ZOO_AUTH_IDS = { "auth", "" };

static struct fuzz_input answers;
static char created[CREATED_MAX][PATH_ROOM + 16]; /* names of nodes that were said to be made */
static size_t created_count;

void fake_zookeeper_begin(struct fuzz_input in)
{
    answers = in;
    created_count = 0;
}

/* ---- answers ------------------------------------------------------------------------------------------ */

static int a_code(uint8_t what)
{
    static const int codes[] = { ZOK,           ZNONODE,          ZNODEEXISTS, ZBADVERSION,
                                 ZNOTEMPTY,     ZCONNECTIONLOSS,  ZNOAUTH,     ZSYSTEMERROR,
                                 ZSESSIONMOVED, ZOPERATIONTIMEOUT };

    return what < 0xc0 ? ZOK : codes[what % (sizeof codes / sizeof *codes)];
}

static struct Stat a_stat(void)
{
    uint8_t what = fuzz_byte(&answers);
    struct Stat stat = { .czxid = what, .mzxid = what, .version = what & 3, .cversion = what };

    if (what == 0xff)
        stat.czxid = stat.mzxid = (int64_t)fuzz_number(&answers, 8);
    if (what == 0xfe)
        stat.version = stat.cversion = (int32_t)fuzz_number(&answers, 4);
    stat.ephemeralOwner = what & 4;
    stat.numChildren = what & 1;
    return stat;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* What the library hands over is its own, and freed afterwards. */
static void answer_list(const struct pending *p, int rc)
{
    struct String_vector list = { .count = 0 };
    char *text[8];

    list.data = text;
    for (uint8_t left = fuzz_byte(&answers) % 8; rc == ZOK && left > 0; left--) {
        uint8_t what = fuzz_byte(&answers);
        struct fuzz_input piece;
        const char *from;

        if (what < 0x80 && created_count > 0) { /* a node that was made, or nearly one */
            from = name_of(created[what % created_count]);
            text[list.count] = fuzz_text(from, strlen(from));
            if (what & 0x40 && strlen(from) > 8)
                text[list.count][what & 7]++;
            list.count++;
            continue;
        }
        piece = fuzz_piece(&answers, 100);
        text[list.count++] = fuzz_text(piece.at, piece.len);
    }
    p->on_list(rc, rc == ZOK ? &list : NULL, p->data);
    for (int32_t i = 0; i < list.count; i++)
        free(text[i]);
}

static void answer_string(const struct pending *p, int rc)
{
    char text[PATH_ROOM + 16];
    struct Stat stat = a_stat();
    uint8_t what = fuzz_byte(&answers);

    snprintf(text, sizeof text, p->sequential ? "%s%010u" : "%s", p->path, what);
    if (what >= 0xf0) {
        struct fuzz_input piece = fuzz_piece(&answers, 200);

        snprintf(text, sizeof text, "%.*s", (int)piece.len, (const char *)piece.at);
    }
    if (rc == ZOK && p->sequential)
        snprintf(created[created_count++ % CREATED_MAX], sizeof created[0], "%s", text);
    if (created_count > CREATED_MAX)
        created_count = CREATED_MAX;
    if (p->kind == STRING)
        p->on_string(rc, rc == ZOK ? text : NULL, p->data);
    else
        p->on_string_stat(rc, rc == ZOK ? text : NULL, rc == ZOK ? &stat : NULL, p->data);
}

static void answer_multi(const struct pending *p, int rc)
{
    for (int i = 0; i < p->count; i++) {
        p->results[i] = (zoo_op_result_t){ .err = a_code(fuzz_byte(&answers)) };
        if (p->ops[i].type == 5 && p->ops[i].set_op.stat) {
            *p->ops[i].set_op.stat = a_stat();
            p->results[i].stat = p->ops[i].set_op.stat;
        }
        if (rc == ZOK && p->results[i].err != ZOK)
            rc = p->results[i].err;
    }
    p->on_void(rc, p->data);
}

static void answer(zhandle_t *zh, int rc)
{
    struct pending p = zh->pending[0];
    struct fuzz_input piece;
    struct Stat stat;

    memmove(zh->pending, zh->pending + 1, --zh->pending_count * sizeof p);
    if (p.watcher && (rc == ZOK || (rc == ZNONODE && p.kind == STAT)) &&
        zh->watch_count < WATCHES_MAX)
        zh->watches[zh->watch_count++] = (struct watch){ p.watcher, p.watch };
    switch (p.kind) {
    case VOID:
        p.on_void(rc, p.data);
        return;
    case STRING:
    case STRING_STAT:
        answer_string(&p, rc);
        return;
    case STAT:
        stat = a_stat();
        p.on_stat(rc, rc == ZOK ? &stat : NULL, p.data);
        return;
    case DATA:
        stat = a_stat();
        piece = fuzz_piece(&answers, 250);
        p.on_data(rc, rc == ZOK ? (const char *)piece.at : NULL, rc == ZOK ? (int)piece.len : -1,
                  rc == ZOK ? &stat : NULL, p.data);
        return;
    case LIST:
        answer_list(&p, rc);
        return;
    case MULTI:
        answer_multi(&p, rc);
    }
}

/* Requests of callbacks come behind, and are not answered now. */
static void answer_all(zhandle_t *zh, int rc)
{
    for (size_t left = zh->pending_count; left > 0; left--)
        answer(zh, rc);
}

/* ---- the session -------------------------------------------------------------------------------------- */

static void hang_up(zhandle_t *zh)
{
    if (zh->fd >= 0)
        close(zh->fd);
    zh->fd = -1;
}

static void enter(zhandle_t *zh, int state)
{
    zh->state = state;
    if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE)
        hang_up(zh);
    zh->on_session(zh, ZOO_SESSION_EVENT, state, "", zh->context);
}

static void tell_watch(zhandle_t *zh, uint8_t what)
{
    static const int types[] = { 1, 2, 3, 4, 2, 4, 0, -2 };
    size_t at = zh->watch_count ? what / 8 % zh->watch_count : 0;
    struct watch watch;

    if (zh->watch_count == 0)
        return;
    watch = zh->watches[at];
    zh->watches[at] = zh->watches[--zh->watch_count];
    watch.watcher(zh, types[what & 7], ZOO_CONNECTED_STATE, "", watch.context);
}

zhandle_t *zookeeper_init2(const char *host, watcher_fn fn, int timeout_ms, const clientid_t *id,
                           void *context, int flags, log_callback_fn log)
{
    zhandle_t *zh = calloc(1, sizeof *zh);

    (void)host, (void)timeout_ms, (void)id, (void)flags, (void)log;
    MUST(zh);
    zh->on_session = fn;
    zh->context = context;
    zh->state = ZOO_NOTCONNECTED_STATE;
    zh->fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK); /* always ready */
    MUST(zh->fd >= 0);
    return zh;
}

int zookeeper_close(zhandle_t *zh)
{
    answer_all(zh, ZCLOSING);
    hang_up(zh);
    free(zh);
    return ZOK;
}

int zookeeper_interest(zhandle_t *zh, int *fd, int *interest, struct timeval *tv)
{
    if (answers.len == 0 && zh->fd >= 0) { /* the server has gone */
        hang_up(zh);
        if (zh->state == ZOO_CONNECTED_STATE)
            enter(zh, ZOO_NOTCONNECTED_STATE);
        answer_all(zh, ZCONNECTIONLOSS);
    }
    *fd = zh->fd;
    *interest = ZOOKEEPER_READ;
    *tv = (struct timeval){ .tv_usec = 100000 };
    return zh->state == ZOO_EXPIRED_SESSION_STATE ? ZINVALIDSTATE : ZOK;
}

int zookeeper_process(zhandle_t *zh, int events)
{
    uint8_t what = fuzz_byte(&answers);

    (void)events;
    if (zh->state == ZOO_EXPIRED_SESSION_STATE || zh->state == ZOO_AUTH_FAILED_STATE)
        return ZINVALIDSTATE;
    if (zh->state != ZOO_CONNECTED_STATE) {
        enter(zh, what == 0xff   ? ZOO_EXPIRED_SESSION_STATE
                  : what == 0xfe ? ZOO_AUTH_FAILED_STATE
                  : what == 0xfd ? ZOO_ASSOCIATING_STATE
                                 : ZOO_CONNECTED_STATE);
        return ZNOTHING;
    }
    if (what >= 0xfc) {
        enter(zh, what == 0xff ? ZOO_EXPIRED_SESSION_STATE : ZOO_NOTCONNECTED_STATE);
        answer_all(zh, what == 0xff ? ZSESSIONEXPIRED : ZCONNECTIONLOSS);
        return ZCONNECTIONLOSS;
    }
    if (what >= 0xe0) {
        tell_watch(zh, what);
        return ZOK;
    }
    if (zh->pending_count == 0)
        return ZNOTHING;
    answer(zh, a_code(what));
    return ZOK;
}

int zoo_state(zhandle_t *zh)
{
    return zh->state;
}

int zoo_recv_timeout(zhandle_t *zh)
{
    (void)zh;
    return 10000;
}

const void *zoo_get_context(zhandle_t *zh)
{
    return zh->context;
}

int zoo_set_servers_resolution_delay(zhandle_t *zh, int delay_ms)
{
    (void)zh, (void)delay_ms;
    return ZOK;
}

const char *zerror(int rc)
{
    return rc == ZOK ? "ok" : "an error";
}

/* ---- requests ----------------------------------------------------------------------------------------- */

static struct pending *ask(zhandle_t *zh, enum kind kind, const char *path, const void *data)
{
    struct pending *p = &zh->pending[zh->pending_count];

    /* A path may be one that the server has said; the library refuses what is none. */
    if (zh->state != ZOO_CONNECTED_STATE || zh->pending_count == PENDING_MAX ||
        (path && (path[0] != '/' || strlen(path) >= PATH_ROOM)))
        return NULL;
    *p = (struct pending){ .kind = kind, .data = data };
    snprintf(p->path, sizeof p->path, "%s", path ? path : "");
    zh->pending_count++;
    return p;
}

#define ASK(kind, path, field, completion)             \
    struct pending *p = ask(zh, (kind), (path), data); \
    if (!p)                                            \
        return ZINVALIDSTATE;                          \
    p->field = (completion)

int zoo_add_auth(zhandle_t *zh, const char *scheme, const char *cert, int len,
                 void_completion_t completion, const void *data)
{
    (void)zh, (void)scheme, (void)cert, (void)len, (void)completion, (void)data;
    return ZOK;
}

int zoo_acreate2(zhandle_t *zh, const char *path, const char *value, int len,
                 const struct ACL_vector *acl, int mode, string_stat_completion_t completion,
                 const void *data)
{
    ASK(STRING_STAT, path, on_string_stat, completion);
    (void)value, (void)len, (void)acl;
    p->sequential = mode == ZOO_EPHEMERAL_SEQUENTIAL;
    return ZOK;
}

int zoo_adelete(zhandle_t *zh, const char *path, int version, void_completion_t completion,
                const void *data)
{
    ASK(VOID, path, on_void, completion);
    (void)version;
    return ZOK;
}

int zoo_awexists(zhandle_t *zh, const char *path, watcher_fn watcher, void *watch,
                 stat_completion_t completion, const void *data)
{
    ASK(STAT, path, on_stat, completion);
    p->watcher = watcher;
    p->watch = watch;
    return ZOK;
}

int zoo_awget(zhandle_t *zh, const char *path, watcher_fn watcher, void *watch,
              data_completion_t completion, const void *data)
{
    ASK(DATA, path, on_data, completion);
    p->watcher = watcher;
    p->watch = watch;
    return ZOK;
}

int zoo_awget_children(zhandle_t *zh, const char *path, watcher_fn watcher, void *watch,
                       strings_completion_t completion, const void *data)
{
    ASK(LIST, path, on_list, completion);
    p->watcher = watcher;
    p->watch = watch;
    return ZOK;
}

int zoo_aset(zhandle_t *zh, const char *path, const char *value, int len, int version,
             stat_completion_t completion, const void *data)
{
    ASK(STAT, path, on_stat, completion);
    (void)value, (void)len, (void)version;
    return ZOK;
}

int zoo_async(zhandle_t *zh, const char *path, string_completion_t completion, const void *data)
{
    ASK(STRING, path, on_string, completion);
    return ZOK;
}

int zoo_amulti(zhandle_t *zh, int count, const zoo_op_t *ops, zoo_op_result_t *results,
               void_completion_t completion, const void *data)
{
    ASK(MULTI, NULL, on_void, completion);
    p->count = count;
    p->ops = ops;
    p->results = results;
    return ZOK;
}

void zoo_create_op_init(zoo_op_t *op, const char *path, const char *value, int len,
                        const struct ACL_vector *acl, int mode, char *buffer, int size)
{
    *op = (zoo_op_t){ .type = 1 };
    op->create_op.path = path;
    (void)value, (void)len, (void)acl, (void)mode, (void)buffer, (void)size;
}

void zoo_delete_op_init(zoo_op_t *op, const char *path, int version)
{
    *op = (zoo_op_t){ .type = 2 };
    op->delete_op.path = path;
    op->delete_op.version = version;
}

void zoo_set_op_init(zoo_op_t *op, const char *path, const char *buffer, int len, int version,
                     struct Stat *stat)
{
    *op = (zoo_op_t){ .type = 5 };
    op->set_op.path = path;
    op->set_op.stat = stat;
    (void)buffer, (void)len, (void)version;
}

void zoo_check_op_init(zoo_op_t *op, const char *path, int version)
{
    *op = (zoo_op_t){ .type = 13 };
    op->check_op.path = path;
    op->check_op.version = version;
}
