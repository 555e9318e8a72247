/* SPDX-License-Identifier: MIT */
/* Servers, plays, verdicts; see run.h. Main thread. */
#include "run.h"

#include "redis_server.h"
#include "stage/redis.h"
#include "util/random.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what is going on ------------------------------------------------------------------------------------ */

static run_progress_fn *progress;

void run_tell(run_progress_fn *tell)
{
    progress = tell;
}

static void tell(const struct experiment *experiment, int way, unsigned run, unsigned runs)
{
    if (progress)
        progress(experiment, way, run, runs);
}

/* ---- is everything there? ----------------------------------------------------------------------------- */

static const struct {
    enum need need;
    const char *programs; /* any of these is enough */
    const char *package;  /* of Debian */
} installed[] = {
    { NEED_REDIS, "redis-server", "redis-server" },
    { NEED_POSTGRES, "/usr/lib/postgresql", "postgresql" },
    { NEED_MARIADB, "mariadbd", "mariadb-server" },
    { NEED_ZOOKEEPER, "/usr/share/java/zookeeper.jar", "libzookeeper-java default-jre-headless" },
    { NEED_ETCD, "etcd", "etcd-server" },
    { NEED_MEMCACHED, "memcached", "memcached" },
};

static bool is_there(const char *program)
{
    char path[128];

    if (program[0] == '/')
        return access(program, F_OK) == 0;
    snprintf(path, sizeof path, "/usr/sbin/%s", program);
    return is_installed(program) || access(path, X_OK) == 0;
}

static bool all_there(const struct stage *stage, const struct experiment *experiment,
                      char text[256])
{
    for (size_t i = 0; i < sizeof installed / sizeof installed[0]; i++) {
        bool own = !(installed[i].need == NEED_REDIS && stage->url);

        if (!(experiment->needs & (unsigned)installed[i].need) || !own ||
            is_there(installed[i].programs))
            continue;
        snprintf(text, 256,
                 "%s starts a server of its own, and none is installed: apt-get install %s",
                 experiment->id, installed[i].package);
        return false;
    }
    return true;
}

/* ---- the server that most experiments use --------------------------------------------------------------- */

struct where {
    struct server *redis;
    char url[160], copy[512];
    const char *users;     /* the URL of the user's server */
    char with_prefix[600]; /* the same with a prefix for this play */
};
static struct where where;

void run_open_redis(struct stage *stage)
{
    if (stage->url)
        return;
    where.redis = server_start(NULL);
    snprintf(where.url, sizeof where.url, "%s", server_url(where.redis, ""));
    stage->redis = where.redis;
    stage->url = where.url;
    stage->redis_host = "127.0.0.1";
    stage->redis_port = where.redis->port;
    snprintf(stage->prefix, sizeof stage->prefix, "lab:");
}

void run_close_redis(struct stage *stage)
{
    if (!stage->redis)
        return;
    server_free(where.redis);
    stage->redis = NULL;
    stage->url = NULL;
}

/* Nothing of an earlier play may be seen by the next. On a server of the user each play has keys of its own instead. */
static void clean_redis(struct stage *stage)
{
    if (stage->redis) {
        server_do(stage->redis, "FLUSHALL");
    } else if (where.users) {
        snprintf(stage->prefix, sizeof stage->prefix, "lab-%08" PRIx32 ":",
                 (uint32_t)hfi_random_u64());
        snprintf(where.with_prefix, sizeof where.with_prefix, "%s%cprefix=%s", where.users,
                 strchr(where.users, '?') ? '&' : '?', stage->prefix);
        stage->url = where.with_prefix;
    }
}

/* What a play has left on a server of the user: all keys of that play have its prefix. */
static void sweep_redis(struct stage *stage)
{
    static const char sweep[] =
        "local at = '0' "
        "repeat "
        "  local page = redis.call('SCAN', at, 'MATCH', ARGV[1] .. '*', 'COUNT', 1000) "
        "  at = page[1] "
        "  for _, key in ipairs(page[2]) do redis.call('DEL', key) end "
        "until at == '0' "
        "return 1";
    bool unclear = stage->unclear;

    if (stage->redis || !where.users)
        return;
    stage->unclear = false; /* whatever became of the play */
    stage_redis(stage, "EVAL %s 0 {", sweep);
    stage->unclear = unclear;
}

static void name_server(struct stage *stage, struct report *report)
{
    redisReply *reply;
    const char *version;

    if (!stage->redis) {
        snprintf(report->server, sizeof report->server, "%s", stage->server);
        return;
    }
    reply = server_ask(stage->redis, "INFO server");
    version = reply->str ? strstr(reply->str, "redis_version:") : NULL;
    if (version)
        snprintf(report->server, sizeof report->server, "redis-server %.*s%s%.40s",
                 (int)strcspn(version + 14, "\r\n"), version + 14, stage->server[0] ? ", " : "",
                 stage->server);
    freeReplyObject(reply);
}

/* ---- plays ---------------------------------------------------------------------------------------------------- */

static void play_once(struct stage *stage, const struct way *way, struct verdict *verdict)
{
    *verdict = (struct verdict){ 0 };
    clean_redis(stage);
    stage_begin(stage, way);
    way->play(stage);
    stage_end(stage);
    sweep_redis(stage);
    if (!stage->unclear)
        way->judge(stage, verdict);
    if (stage->unclear) {
        verdict->unclear = true;
        verdict_say(verdict, "This run did not come to its end: %s.", "这次运行没有走到终点：%s。",
                    stage->why);
    }
}

/* The picture is of the first run that went as told; without one, of the last. */
static void play_way(struct stage *stage, const struct way *way, unsigned repeat,
                     struct finding *finding)
{
    bool drawn = false;

    for (unsigned i = 0; i < repeat && !stage_interrupted(); i++) {
        struct verdict verdict;

        tell(stage->experiment, (int)(way - stage->experiment->ways), i + 1, repeat);
        play_once(stage, way, &verdict);
        finding->runs++;
        finding->broke += verdict.broken && !verdict.unclear;
        finding->unclear += verdict.unclear;
        if (drawn)
            continue;
        drawn = !verdict.unclear && verdict.broken == way->breaks;
        finding->verdict = verdict;
        scene_build(&finding->scene, way, stage->history);
    }
}

static size_t count_ways(const struct experiment *experiment)
{
    size_t count = 0;

    while (count < WAYS_MAX && experiment->ways[count].title.in[LANG_EN])
        count++;
    return count;
}

static void measure(struct stage *stage, const struct experiment *experiment, unsigned repeat,
                    struct report *report)
{
    for (unsigned i = 0; i < repeat && !stage_interrupted(); i++) {
        struct verdict verdicts[WAYS_MAX] = { { 0 } };

        tell(experiment, 0, i + 1, repeat);
        clean_redis(stage);
        stage_begin(stage, &experiment->ways[0]);
        experiment->measure(stage, &report->plot, verdicts);
        stage_end(stage);
        sweep_redis(stage);
        for (size_t way = 0; way < report->ways; way++) {
            struct finding *finding = &report->findings[way];

            if (stage->unclear) {
                verdicts[way].unclear = true;
                verdict_say(&verdicts[way], "This run did not come to its end: %s.",
                            "这次运行没有走到终点：%s。", stage->why);
            }
            finding->verdict = verdicts[way];
            finding->runs++;
            finding->broke += verdicts[way].broken && !verdicts[way].unclear;
            finding->unclear += verdicts[way].unclear;
        }
    }
}

enum run_end run_experiment(struct stage *stage, const struct experiment *experiment,
                            unsigned repeat, struct report *ret_report, char text[256])
{
    *ret_report = (struct report){ .experiment = experiment, .ways = count_ways(experiment) };
    stage->experiment = experiment;
    if (stage->url && (experiment->own_servers || !(experiment->needs & NEED_REDIS))) {
        snprintf(text, 256, "%s needs servers of its own: leave --store out", experiment->id);
        return RUN_REFUSED;
    }
    if (!all_there(stage, experiment, text))
        return RUN_MISSING;
    tell(experiment, -1, 0, repeat);
    if (experiment->open)
        experiment->open(stage);
    else if (experiment->needs & NEED_REDIS)
        run_open_redis(stage);
    name_server(stage, ret_report);
    if (experiment->measure)
        measure(stage, experiment, repeat, ret_report);
    else
        for (size_t i = 0; i < ret_report->ways; i++)
            play_way(stage, &experiment->ways[i], repeat, &ret_report->findings[i]);
    if (experiment->close)
        experiment->close(stage);
    else
        run_close_redis(stage);
    tell(NULL, 0, 0, 0);
    return stage_interrupted() ? RUN_STOPPED : RUN_DONE;
}

bool report_as_told(const struct report *report)
{
    for (size_t i = 0; i < report->ways; i++) {
        const struct finding *finding = &report->findings[i];
        bool breaks = report->experiment->ways[i].breaks;

        if (finding->unclear > 0 || (breaks ? finding->broke == 0 : finding->broke > 0))
            return false;
    }
    return true;
}

/* ---- a server of the user -------------------------------------------------------------------------------------- */

bool run_at(struct stage *stage, const char *url)
{
    static const char scheme[] = "redis://";
    char *host = where.copy, *at, *mark;

    if (strncmp(url, scheme, strlen(scheme)) != 0 || strlen(url) >= sizeof where.copy ||
        strpbrk(url, "[%,") || strstr(url, "prefix="))
        return false;
    strcpy(where.copy, url + strlen(scheme));
    host[strcspn(host, "?#")] = 0;
    at = strrchr(host, '@');
    if (at) {
        *at = 0;
        mark = strchr(host, ':');
        if (mark) {
            *mark = 0;
            stage->redis_user = host[0] ? host : NULL;
            stage->redis_password = mark + 1;
        }
        host = at + 1;
    }
    mark = strchr(host, '/');
    if (mark) {
        *mark = 0;
        stage->redis_db = (int)strtol(mark + 1, NULL, 10);
    }
    mark = strchr(host, ':');
    if (mark)
        *mark = 0;
    stage->redis_port = mark ? (int)strtol(mark + 1, NULL, 10) : 6379;
    stage->redis_host = host[0] ? host : "127.0.0.1";
    stage->url = where.users = url;
    return true;
}
