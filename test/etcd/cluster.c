/* SPDX-License-Identifier: MIT */
/* etcd servers for one test; see cluster.h. Main thread only, except etcd_tell(). */
#include "cluster.h"

#include "server.h" /* ports, clock, give_up() */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGS_MAX 48
#define TEXT_MAX 512

/* ---- asking ---------------------------------------------------------------------------------- */

/* gRPC's code; -1: no answer. */
static int ask(const struct etcd_cluster *cluster, size_t member, const char *path,
               const struct etcd_text *body, const char *token, struct etcd_text *ret_reply)
{
    struct grpc *raw = grpc_open(cluster->members[member].port, cluster->tls ? cluster->dir : NULL);
    struct etcd_message reply = { NULL, 0 };
    const char *text = "";
    char whole[80];
    int code;

    snprintf(whole, sizeof whole, "/etcdserverpb.%s", path);
    code = raw ? grpc_ask(raw, whole, body, token, &reply, &text) : -1;
    if (code == 0)
        etcd_add_bytes(ret_reply, reply.at, reply.len);
    else
        etcd_add_bytes(ret_reply, text, strlen(text));
    grpc_close(raw);
    return code;
}

struct etcd_message etcd_answer(const struct etcd_text *text)
{
    return (struct etcd_message){ (const unsigned char *)text->bytes, text->len };
}

/* The token of root. */
static char *log_in(const struct etcd_cluster *cluster, size_t member)
{
    struct etcd_text body = { 0 }, reply = { 0 };
    struct etcd_message token = { NULL, 0 };
    char *copy = NULL;

    etcd_put_bytes(&body, 1, "root", 4);
    etcd_put_bytes(&body, 2, ETCD_SECRET, strlen(ETCD_SECRET));
    if (ask(cluster, member, "Auth/Authenticate", &body, NULL, &reply) == 0)
        token = etcd_part(etcd_answer(&reply), 2);
    if (token.at)
        copy = strndup((const char *)token.at, token.len);
    etcd_text_done(&body);
    etcd_text_done(&reply);
    return copy;
}

struct etcd_text etcd_tell(struct etcd_cluster *cluster, size_t member, const char *path,
                           struct etcd_text body, bool fine)
{
    int64_t until_ms = clock_ms() + SERVER_LIMIT_MS;
    struct etcd_text reply = { 0 };

    for (;;) {
        char *token = cluster->auth ? log_in(cluster, member) : NULL;
        int code = ask(cluster, member, path, &body, token, &reply);

        free(token);
        if (code == 0 || !fine)
            break;
        if (clock_ms() > until_ms)
            give_up("etcd: %s: %d %.*s", path, code, (int)reply.len, reply.bytes);
        etcd_text_done(&reply);
        sleep_ms(20);
    }
    etcd_text_done(&body);
    return reply;
}

/* ---- a member's life --------------------------------------------------------------------------- */

static void begin(struct etcd_cluster *cluster, size_t member)
{
    char text[24][TEXT_MAX], log[2 * ETCD_PATH_ROOM], peers[TEXT_MAX] = "";
    const char *args[ARGS_MAX] = { "/usr/bin/etcd" };
    const struct etcd_member *me = &cluster->members[member];
    const char *s = cluster->tls ? "s" : "";
    size_t n = 0, used = 0;

    for (size_t i = 0; i < cluster->count; i++)
        used += (size_t)snprintf(peers + used, sizeof peers - used, "%sm%zu=http://127.0.0.1:%u",
                                 i ? "," : "", i, (unsigned)cluster->members[i].peer_port);
#define ARG(...) (snprintf(text[n], TEXT_MAX, __VA_ARGS__), args[n + 1] = text[n], n++)
    ARG("--name=m%zu", member);
    ARG("--data-dir=%s/m%zu", cluster->dir, member);
    ARG("--listen-client-urls=http%s://127.0.0.1:%u", s, (unsigned)me->port);
    ARG("--advertise-client-urls=http%s://127.0.0.1:%u", s, (unsigned)me->port);
    ARG("--listen-peer-urls=http://127.0.0.1:%u", (unsigned)me->peer_port);
    ARG("--initial-advertise-peer-urls=http://127.0.0.1:%u", (unsigned)me->peer_port);
    ARG("--initial-cluster=%s", peers);
    ARG("--logger=zap");
    ARG("--log-level=warn");
    if (cluster->narrow) {
        ARG("--max-txn-ops=%d", ETCD_NARROW_OPS);
        ARG("--max-request-bytes=%d", ETCD_NARROW_BYTES);
    }
    if (cluster->count == 1) { /* so that a ttl can be one second */
        ARG("--heartbeat-interval=50");
        ARG("--election-timeout=500");
    }
    if (cluster->tls) {
        ARG("--cert-file=%s/server.crt", cluster->dir);
        ARG("--key-file=%s/server.key", cluster->dir);
        ARG("--trusted-ca-file=%s/ca.crt", cluster->dir);
        ARG("--client-cert-auth");
    }
#undef ARG
    snprintf(log, sizeof log, "%s/log%zu", cluster->dir, member);
    cluster->members[member].pid = launch(args, &(struct launch){ .log = log });
}

static void show_logs(const struct etcd_cluster *cluster)
{
    char path[2 * ETCD_PATH_ROOM];

    for (size_t i = 0; i < cluster->count; i++) {
        snprintf(path, sizeof path, "%s/log%zu", cluster->dir, i);
        show_file(path);
    }
}

/* Wait until it serves: a read that needs a leader is answered (or refused because it needs a
 * user). */
static void await_answer(struct etcd_cluster *cluster, size_t member)
{
    int64_t until_ms = clock_ms() + SERVER_LIMIT_MS;
    pid_t pid = cluster->members[member].pid;

    for (;;) {
        struct etcd_text body = { 0 }, reply = { 0 };
        bool answered;
        int code;

        etcd_put_bytes(&body, 1, "a", 1);
        code = ask(cluster, member, "KV/Range", &body, NULL, &reply);
        answered = code == 0 || (cluster->auth && code > 0);
        etcd_text_done(&body);
        etcd_text_done(&reply);
        if (answered)
            return;
        if (waitpid(pid, NULL, WNOHANG) == pid || clock_ms() > until_ms) {
            show_logs(cluster);
            give_up("etcd does not start");
        }
        sleep_ms(5);
    }
}

void etcd_kill(struct etcd_cluster *cluster, size_t member)
{
    end_process(&cluster->members[member].pid);
}

void etcd_restart(struct etcd_cluster *cluster, size_t member)
{
    begin(cluster, member);
    await_answer(cluster, member);
}

void etcd_restart_all(struct etcd_cluster *cluster)
{
    for (size_t i = 0; i < cluster->count; i++)
        if (!cluster->members[i].pid)
            begin(cluster, i);
    for (size_t i = 0; i < cluster->count; i++)
        await_answer(cluster, i);
}

void etcd_pause(struct etcd_cluster *cluster, size_t member)
{
    if (!stop_process(cluster->members[member].pid))
        give_up("etcd has ended by itself");
}

void etcd_continue(struct etcd_cluster *cluster, size_t member)
{
    kill(cluster->members[member].pid, SIGCONT);
}

size_t etcd_leader(struct etcd_cluster *cluster, size_t of, int but)
{
    int64_t until_ms = clock_ms() + SERVER_LIMIT_MS;

    while (clock_ms() < until_ms) {
        struct etcd_text reply =
            etcd_tell(cluster, of, "Maintenance/Status", (struct etcd_text){ 0 }, false);
        uint64_t leader = (uint64_t)etcd_number(etcd_answer(&reply), 4);

        etcd_text_done(&reply);
        for (size_t i = 0; leader && i < cluster->count; i++)
            if (cluster->members[i].id == leader && (int)i != but)
                return i;
        sleep_ms(20);
    }
    show_logs(cluster);
    give_up("etcd has no leader");
}

/* ---- all of it ------------------------------------------------------------------------------------ */

static const char certificate_script[] =
    "set -e; cd \"$0\"; exec 2>tls-log; new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 "
    "-nodes'\n"
    "openssl req -x509 $new -days 2 -subj /CN=test-ca -keyout ca.key -out ca.crt\n"
    "openssl req -x509 $new -days 2 -subj /CN=server -CA ca.crt -CAkey ca.key"
    "  -addext subjectAltName=IP:127.0.0.1,DNS:localhost -addext "
    "extendedKeyUsage=serverAuth,clientAuth"
    "  -addext basicConstraints=critical,CA:FALSE -keyout server.key -out server.crt\n"
    "openssl req -x509 $new -days 2 -subj / -CA ca.crt -CAkey ca.key"
    "  -addext extendedKeyUsage=clientAuth"
    "  -addext basicConstraints=critical,CA:FALSE -keyout client.key -out client.crt\n";

static void make_certificates(const struct etcd_cluster *cluster)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        execlp("sh", "sh", "-c", certificate_script, cluster->dir, (char *)NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        give_up("openssl makes no certificates, see %s/tls-log", cluster->dir);
}

/* A message of texts: fields 1, 2, ... */
static void tell_texts(struct etcd_cluster *cluster, const char *path, const char *one,
                       const char *two)
{
    struct etcd_text body = { 0 }, reply;

    if (one)
        etcd_put_bytes(&body, 1, one, strlen(one));
    if (two)
        etcd_put_bytes(&body, 2, two, strlen(two));
    reply = etcd_tell(cluster, 0, path, body, true);
    etcd_text_done(&reply);
}

/* "hf/" to "hf0": to read and to write */
static void permit(struct etcd_cluster *cluster, const char *role)
{
    struct etcd_text body = { 0 }, reply;
    size_t begun;

    etcd_put_bytes(&body, 1, role, strlen(role));
    begun = etcd_put_begin(&body, 2);
    etcd_put_number(&body, 1, 2);
    etcd_put_bytes(&body, 2, "hf/", 3);
    etcd_put_bytes(&body, 3, "hf0", 3);
    etcd_put_end(&body, begun);
    reply = etcd_tell(cluster, 0, "Auth/RoleGrantPermission", body, true);
    etcd_text_done(&reply);
}

static void make_users(struct etcd_cluster *cluster)
{
    tell_texts(cluster, "Auth/UserAdd", "root", ETCD_SECRET);
    tell_texts(cluster, "Auth/RoleAdd", "root", NULL);
    tell_texts(cluster, "Auth/UserGrantRole", "root", "root");
    tell_texts(cluster, "Auth/UserAdd", "app", ETCD_SECRET);
    tell_texts(cluster, "Auth/RoleAdd", "locks", NULL);
    permit(cluster, "locks");
    tell_texts(cluster, "Auth/UserGrantRole", "app", "locks");
    tell_texts(cluster, "Auth/AuthEnable", NULL, NULL);
    cluster->auth = true;
}

static void end(void *cluster)
{
    etcd_free(cluster);
}

struct etcd_cluster *etcd_start(size_t count, unsigned flags)
{
    struct etcd_cluster *cluster = calloc(1, sizeof *cluster);

    server_keep(cluster, end);
    make_dir(cluster->dir, sizeof cluster->dir, "etcd", true);
    cluster->count = count;
    cluster->tls = flags & ETCD_TLS;
    cluster->narrow = flags & ETCD_NARROW;
    if (cluster->tls)
        make_certificates(cluster);
    for (size_t i = 0; i < count; i++) {
        cluster->members[i].port = free_port();
        cluster->members[i].peer_port = free_port();
    }
    for (size_t i = 0; i < count; i++)
        begin(cluster, i);
    for (size_t i = 0; i < count; i++) {
        struct etcd_text reply;

        await_answer(cluster, i);
        reply = etcd_tell(cluster, i, "Maintenance/Status", (struct etcd_text){ 0 }, true);
        cluster->members[i].id = (uint64_t)etcd_number(etcd_part(etcd_answer(&reply), 1), 2);
        etcd_text_done(&reply);
    }
    if (flags & ETCD_AUTH)
        make_users(cluster);
    return cluster;
}

void etcd_free(struct etcd_cluster *cluster)
{
    if (!cluster)
        return;
    server_forget(cluster);
    for (size_t i = 0; i < cluster->count; i++)
        etcd_kill(cluster, i);
    remove_dir(cluster->dir);
    free(cluster);
}

const char *etcd_url(const struct etcd_cluster *cluster, int only, const char *rest)
{
    static char urls[4][1024];
    static size_t next;
    char *url = urls[next++ % 4], *d = (char *)cluster->dir;
    size_t used = 0;

#define ADD(...) (used += (size_t)snprintf(url + used, sizeof urls[0] - used, __VA_ARGS__))
    ADD("etcd%s://%s", cluster->tls ? "s" : "", cluster->auth ? "app:" ETCD_SECRET "@" : "");
    for (size_t i = 0; i < cluster->count; i++)
        if (only < 0 || (size_t)only == i)
            ADD("%s127.0.0.1:%u", i && only < 0 ? "," : "", (unsigned)cluster->members[i].port);
    ADD("/hf/{id}");
    if (cluster->tls)
        ADD("?ca=%s/ca.crt&cert=%s/client.crt&key=%s/client.key%s", d, d, d, *rest ? "&" : "");
    else if (*rest)
        ADD("?");
    ADD("%s", rest);
#undef ADD
    return url;
}
