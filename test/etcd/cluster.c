/* SPDX-License-Identifier: MIT */
/* etcd servers for one test; see cluster.h. Main thread only, except etcd_ask(). */
#include "cluster.h"

#include "server.h" /* ports, clock, give_up() */

#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGS_MAX 48
#define TEXT_MAX 512

/* ---- asking ---------------------------------------------------------------------------------- */

static size_t on_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    return fwrite(bytes, size, count, arg) * size;
}

/* NULL: no answer. */
static json_t *post(const struct etcd_cluster *cluster, size_t member, const char *path,
                    const char *body, const char *token)
{
    CURL *easy = curl_easy_init();
    struct curl_slist *headers = NULL;
    char url[256], file[2 * ETCD_PATH_ROOM], line[256], *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    json_t *reply = NULL;

    if (!easy || !out)
        give_up("out of memory");
    snprintf(url, sizeof url, "http%s://127.0.0.1:%u%s", cluster->tls ? "s" : "",
             (unsigned)cluster->members[member].port, path);
    snprintf(line, sizeof line, "Authorization: %s", token ? token : "");
    if (token)
        headers = curl_slist_append(headers, line);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 10000L);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, out);
    if (cluster->tls) {
        snprintf(file, sizeof file, "%s/ca.crt", cluster->dir);
        curl_easy_setopt(easy, CURLOPT_CAINFO, file);
        snprintf(file, sizeof file, "%s/client.crt", cluster->dir);
        curl_easy_setopt(easy, CURLOPT_SSLCERT, file);
        snprintf(file, sizeof file, "%s/client.key", cluster->dir);
        curl_easy_setopt(easy, CURLOPT_SSLKEY, file);
    }
    if (curl_easy_perform(easy) == CURLE_OK && fflush(out) == 0)
        reply = json_loadb(text, size, 0, NULL);
    fclose(out);
    free(text);
    curl_slist_free_all(headers);
    curl_easy_cleanup(easy);
    return reply;
}

json_t *etcd_ask(struct etcd_cluster *cluster, size_t member, const char *path, const char *body,
                 bool fine)
{
    json_t *login = NULL, *reply;
    int64_t until_ms = clock_ms() + SERVER_LIMIT_MS;

    for (;;) {
        if (cluster->auth) {
            json_decref(login);
            login = post(cluster, member, "/v3/auth/authenticate",
                         "{\"name\":\"root\",\"password\":\"" ETCD_SECRET "\"}", NULL);
        }
        reply =
            post(cluster, member, path, body, json_string_value(json_object_get(login, "token")));
        if (!fine || (reply && !json_object_get(reply, "error")))
            break;
        if (clock_ms() > until_ms) {
            char *text = reply ? json_dumps(reply, 0) : NULL;

            give_up("etcd: %s %s: %s", path, body, text ? text : "no answer");
        }
        json_decref(reply);
        sleep_ms(20);
    }
    json_decref(login);
    return reply;
}

int64_t etcd_number(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? (int64_t)strtoull(text, NULL, 10) : 0;
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
        json_t *reply = post(cluster, member, "/v3/kv/range", "{\"key\":\"YQ==\"}", NULL);
        bool answered =
            json_object_get(reply, "header") || (cluster->auth && json_object_get(reply, "error"));

        json_decref(reply);
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
        json_t *reply = etcd_ask(cluster, of, "/v3/maintenance/status", "{}", false);
        uint64_t leader = (uint64_t)etcd_number(reply, "leader");

        json_decref(reply);
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

/* "hf/" to "hf0" */
static void make_users(struct etcd_cluster *cluster)
{
    static const char *const steps[][2] = {
        { "/v3/auth/user/add", "{\"name\":\"root\",\"password\":\"" ETCD_SECRET "\"}" },
        { "/v3/auth/role/add", "{\"name\":\"root\"}" },
        { "/v3/auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}" },
        { "/v3/auth/user/add", "{\"name\":\"app\",\"password\":\"" ETCD_SECRET "\"}" },
        { "/v3/auth/role/add", "{\"name\":\"locks\"}" },
        { "/v3/auth/role/grant", "{\"name\":\"locks\",\"perm\":{\"permType\":\"READWRITE\","
                                 "\"key\":\"aGYv\",\"range_end\":\"aGYw\"}}" },
        { "/v3/auth/user/grant", "{\"user\":\"app\",\"role\":\"locks\"}" },
        { "/v3/auth/enable", "{}" },
    };

    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        json_decref(etcd_ask(cluster, 0, steps[i][0], steps[i][1], true));
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
    if (cluster->tls)
        make_certificates(cluster);
    for (size_t i = 0; i < count; i++) {
        cluster->members[i].port = free_port();
        cluster->members[i].peer_port = free_port();
    }
    for (size_t i = 0; i < count; i++)
        begin(cluster, i);
    for (size_t i = 0; i < count; i++) {
        json_t *reply;

        await_answer(cluster, i);
        reply = etcd_ask(cluster, i, "/v3/maintenance/status", "{}", true);
        cluster->members[i].id =
            (uint64_t)etcd_number(json_object_get(reply, "header"), "member_id");
        json_decref(reply);
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
