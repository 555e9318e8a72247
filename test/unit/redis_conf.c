/* SPDX-License-Identifier: MIT */
/*
 * URLs of redis stores: what each becomes, and what is refused, by which name and at which byte.
 */
#include "unit.h"

#include "core/conf.h"
#include "engine/redis/conf.h"
#include "util/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/holdfast-conf-XXXXXX";

static const char *path_of(const char *file)
{
    static char path[100];

    snprintf(path, sizeof path, "%s/%s", dir, file);
    return path;
}

static void write_file(const char *file, const char *text)
{
    FILE *out = fopen(path_of(file), "we");

    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static void free_conf(struct hfi_redis_conf *conf)
{
    redis_conf_done(conf);
    hfi_conf_free(conf);
}

static hf_status parse(const char *text, struct hfi_redis_conf **ret_conf, hf_error *err)
{
    struct hfi_conf *conf = NULL;
    struct hfi_url url;
    hf_status status = hfi_url_parse(text, &url, err);

    if (status != HF_OK)
        return status;
    status = hfi_conf_read(&url, &redis_conf_type, &conf, err);
    if (status == HF_OK)
        status =
            redis_conf_finish((struct hfi_redis_conf *)conf, "a label\twith \x7f\xc3\xa9", err);
    hfi_url_done(&url);
    if (status == HF_OK)
        *ret_conf = (struct hfi_redis_conf *)conf;
    else
        free_conf((struct hfi_redis_conf *)conf);
    return status;
}

/* ---- good ---------------------------------------------------------------------------------------- */

static void places(void **state)
{
    static const struct {
        const char *url, *location;
        enum redis_topology_kind way;
        unsigned db;
        bool tls;
        const char *user, *password, *master;
    } cases[] = {
        { "redis://localhost", "redis://localhost:6379/0", REDIS_TOPOLOGY_SINGLE, 0, 0, 0, 0, 0 },
        { "REDIS://h", "redis://h:6379/0", REDIS_TOPOLOGY_SINGLE, 0, 0, 0, 0, 0 },
        { "redis://10.0.0.4:7000/", "redis://10.0.0.4:7000/0", REDIS_TOPOLOGY_SINGLE, 0, 0, 0, 0,
          0 },
        { "redis://h:1/15", "redis://h:1/15", REDIS_TOPOLOGY_SINGLE, 15, 0, 0, 0, 0 },
        { "redis://h?db=15", "redis://h:6379/15", REDIS_TOPOLOGY_SINGLE, 15, 0, 0, 0, 0 },
        { "redis://h/3?db=3", "redis://h:6379/3", REDIS_TOPOLOGY_SINGLE, 3, 0, 0, 0, 0 },
        { "redis://[::1]", "redis://[::1]:6379/0", REDIS_TOPOLOGY_SINGLE, 0, 0, 0, 0, 0 },
        { "redis://[fe80::1%25eth0]:65535", "redis://[fe80::1%eth0]:65535/0", REDIS_TOPOLOGY_SINGLE,
          0, 0, 0, 0, 0 },
        { "redis://u:p@h", "redis://h:6379/0", REDIS_TOPOLOGY_SINGLE, 0, 0, "u", "p", 0 },
        { "redis://:p@h", "redis://h:6379/0", REDIS_TOPOLOGY_SINGLE, 0, 0, 0, "p", 0 },
        { "redis://u:@h", "redis://h:6379/0", REDIS_TOPOLOGY_SINGLE, 0, 0, "u", "", 0 },
        { "redis://u%3A:p%40%2f%3a%25@[::1]:7", "redis://[::1]:7/0", REDIS_TOPOLOGY_SINGLE, 0, 0,
          "u:", "p@/:%", 0 },
        { "redis://a@b:c@d@h", "redis://h:6379/0", REDIS_TOPOLOGY_SINGLE, 0, 0, "a@b", "c@d", 0 },
        { "rediss://h", "rediss://h:6379/0", REDIS_TOPOLOGY_SINGLE, 0, 1, 0, 0, 0 },
        { "redis://h?tls=on", "redis://h:6379/0", REDIS_TOPOLOGY_SINGLE, 0, 1, 0, 0, 0 },
        { "redis+unix:///run/redis.sock", "redis+unix:///run/redis.sock", REDIS_TOPOLOGY_SINGLE, 0,
          0, 0, 0, 0 },
        { "redis+unix:///run/a%20b@c?db=2", "redis+unix:///run/a b@c?db=2", REDIS_TOPOLOGY_SINGLE,
          2, 0, 0, 0, 0 },
        { "redis+unix://u:p@/s", "redis+unix:///s", REDIS_TOPOLOGY_SINGLE, 0, 0, "u", "p", 0 },
        { "redis+sentinel://a/m", "redis+sentinel://a:26379/m/0", REDIS_TOPOLOGY_SENTINEL, 0, 0, 0,
          0, "m" },
        { "redis+sentinel://u:p@a,b:1,[::2]:3/my%20m/4", NULL, REDIS_TOPOLOGY_SENTINEL, 4, 0, "u",
          "p", NULL },
        { "redis+sentinel://a,b:1,[::2]:3/my-m/4", "redis+sentinel://a:26379,b:1,[::2]:3/my-m/4",
          REDIS_TOPOLOGY_SENTINEL, 4, 0, 0, 0, "my-m" },
        { "redis+sentinel://a/m%ffx", "redis+sentinel://a:26379/m\\xffx/0", REDIS_TOPOLOGY_SENTINEL,
          0, 0, 0, 0,
          "m\xff"
          "x" },
        { "redis+cluster://a,b:7001", "redis+cluster://a:6379,b:7001", REDIS_TOPOLOGY_CLUSTER, 0, 0,
          0, 0, 0 },
        { "redis://h?prefix=a:%26", "redis://h:6379/0?prefix=a:%26", REDIS_TOPOLOGY_SINGLE, 0, 0, 0,
          0, 0 },
        { "redis://h?prefix=hf:&wire=native", "redis://h:6379/0", REDIS_TOPOLOGY_SINGLE, 0, 0, 0, 0,
          0 },
        { "redis://h?wire=plain&prefix=x", "redis://h:6379/0?wire=plain", REDIS_TOPOLOGY_SINGLE, 0,
          0, 0, 0, 0 },
        { "redis+unix:///s?wire=redisson&db=2", "redis+unix:///s?db=2&wire=redisson",
          REDIS_TOPOLOGY_SINGLE, 2, 0, 0, 0, 0 },
        { "redis+cluster://a/", "redis+cluster://a:6379", REDIS_TOPOLOGY_CLUSTER, 0, 0, 0, 0, 0 },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct hfi_redis_conf *conf = NULL;
        hf_error err;
        hf_status status = parse(cases[i].url, &conf, &err);

        if (!cases[i].location) {
            assert_int_equal(status, HF_CONFIG);
            continue;
        }
        if (status != HF_OK)
            fail_msg("%s: %s", cases[i].url, err.text);
        assert_string_equal(conf->location, cases[i].location);
        assert_int_equal(conf->topology, cases[i].way);
        assert_int_equal(conf->db, cases[i].db);
        assert_int_equal(conf->url.tls.on, cases[i].tls);
        assert_int_equal(conf->tls_context != NULL, cases[i].tls);
        assert_string_equal(conf->url.user ? conf->url.user : "-",
                            cases[i].user ? cases[i].user : "-");
        assert_string_equal(conf->url.secret ? conf->url.secret : "-",
                            cases[i].password ? cases[i].password : "-");
        assert_string_equal(conf->master ? conf->master : "-",
                            cases[i].master ? cases[i].master : "-");
        assert_string_equal(conf->client_name, "holdfast:a_label_with____");
        free_conf(conf);
    }
}

static void addresses(void **state)
{
    struct hfi_redis_conf *conf = NULL;

    (void)state;
    assert_int_equal(parse("redis+cluster://a,b:1,[::2]:3,10.0.0.1", &conf, NULL), HF_OK);
    assert_int_equal(conf->url.host_count, 4);
    assert_string_equal(conf->url.hosts[2].host, "::2");
    assert_int_equal(conf->url.hosts[2].port, 3);
    assert_string_equal(conf->url.hosts[2].shown, "[::2]:3");
    assert_string_equal(conf->url.hosts[3].shown, "10.0.0.1:6379");
    free_conf(conf);

    assert_int_equal(parse("redis+unix:///tmp/x", &conf, NULL), HF_OK);
    assert_null(conf->url.hosts[0].host);
    assert_string_equal(conf->url.hosts[0].path, "/tmp/x");
    free_conf(conf);
}

static void parameters(void **state)
{
    struct hfi_redis_conf *conf = NULL;

    (void)state;
    assert_int_equal(parse("redis://h", &conf, NULL), HF_OK);
    assert_int_equal(conf->connect_ms, 2000);
    assert_int_equal(conf->op_ms, 5000);
    assert_int_equal(conf->ping_ms, 2000);
    assert_int_equal(conf->sync_ms, 1000);
    assert_int_equal(conf->poll_ms, 100);
    assert_int_equal(conf->sync, 0);
    assert_int_equal(conf->wire, HFI_WIRE_NATIVE);
    assert_string_equal(conf->prefix, "hf:");
    free_conf(conf);

    assert_int_equal(
        parse("redis://h?connect_timeout=1s&op_timeout=2s&ping=3s&sync_timeout=4s&poll="
              "5ms&sync=0&wire=plain&prefix=&repair_expiry=1m",
              &conf, NULL),
        HF_OK);
    assert_int_equal(conf->connect_ms, 1000);
    assert_int_equal(conf->op_ms, 2000);
    assert_int_equal(conf->ping_ms, 3000);
    assert_int_equal(conf->sync_ms, 4000);
    assert_int_equal(conf->poll_ms, 5);
    assert_int_equal(conf->sync, 0);
    assert_int_equal(conf->wire, HFI_WIRE_PLAIN);
    assert_string_equal(conf->prefix, "");
    assert_int_equal(conf->repair_expiry_ms, 60000);
    free_conf(conf);

    assert_int_equal(parse("rediss://h?verify=off&sni=x&wire=redisson", &conf, NULL), HF_OK);
    assert_false(conf->url.tls.verify);
    assert_string_equal(conf->url.tls.name, "x");
    assert_int_equal(conf->wire, HFI_WIRE_REDISSON);
    free_conf(conf);

    assert_int_equal(parse("rediss://h", &conf, NULL), HF_OK);
    assert_true(conf->url.tls.verify);
    free_conf(conf);
}

static void secrets(void **state)
{
    struct hfi_redis_conf *conf = NULL;
    char url[300];

    (void)state;
    setenv("UNIT_SECRET", "from the environment", 1);
    assert_int_equal(parse("redis://u@h?password_env=UNIT_SECRET", &conf, NULL), HF_OK);
    assert_string_equal(conf->url.user, "u");
    assert_string_equal(conf->url.secret, "from the environment");
    assert_null(strstr(conf->location, "from"));
    free_conf(conf);

    write_file("secret", "from a file\r\nsecond line\n");
    snprintf(url, sizeof url, "redis+unix:///s?user=u&password_file=%s", path_of("secret"));
    assert_int_equal(parse(url, &conf, NULL), HF_OK);
    assert_string_equal(conf->url.user, "u");
    assert_string_equal(conf->url.secret, "from a file");
    free_conf(conf);

    snprintf(
        url, sizeof url,
        "redis+sentinel://h/m?sentinel_user=s&sentinel_password_file=%s&password_env=UNIT_SECRET",
        path_of("secret"));
    assert_int_equal(parse(url, &conf, NULL), HF_OK);
    assert_string_equal(conf->sentinel_user, "s");
    assert_string_equal(conf->sentinel_password, "from a file");
    assert_string_equal(conf->url.secret, "from the environment");
    assert_null(conf->url.user);
    free_conf(conf);
}

/* ---- bad ----------------------------------------------------------------------------------------- */

#define LONG_NAME "x23456789.x23456789.x23456789.x23456789.x23456789.x23456789.x23456789.x23456789."
#define PATH_108                                                                                 \
    "/23456789.x23456789.x23456789.x23456789.x23456789.x23456789.x23456789.x23456789.x23456789." \
    "x23456789.x2345678"

static void refused(void **state)
{
    static const struct {
        const char *url;
        const char *has; /* the part, and its byte */
    } cases[] = {
        { "redis:", "the host at byte 6" },
        { "redis:h", "the host at byte 6" },
        { "redis://", "the host at byte 8 is empty" },
        { "redis://:6379", "the host at byte 8 is empty" },
        { "redis://u:p@", "the host at byte 12 is empty" },
        { "redis://@h", "the user at byte 8 is empty" },
        { "redis://u@h", "a user without a password" },
        { "redis://h h", "the host at byte 8 is neither" },
        { "redis://h%00", "the host at byte 8 has a bad %XX" },
        { "redis://u%zz:p@h", "the user at byte 8 has a bad %XX" },
        { "redis://u:S3KR3T%@h", "the password at byte 10 has a bad %XX" },
        { "redis://::1", "the host at byte 8 has two" },
        { "redis://h:", "the port at byte 10" },
        { "redis://h:0", "the port at byte 10" },
        { "redis://h:65536", "the port at byte 10" },
        { "redis://h:12345678901", "the port at byte 10" },
        { "redis://h:+1", "the port at byte 10" },
        { "redis://h:6379x", "the port at byte 10" },
        { "redis://[::1", "the host at byte 8 has no closing" },
        { "redis://[::1]x", "the host at byte 13 continues" },
        { "redis://[::g]", "the host at byte 8 is neither" },
        { "redis://[]", "the host at byte 8 is empty" },
        { "redis://[127.0.0.1]", "the host at byte 8 is neither" },
        { "redis://" LONG_NAME LONG_NAME LONG_NAME LONG_NAME, "the host at byte 8 is neither" },
        { "redis://a,b", "a second host at byte 10" },
        { "redis://h/x", "the database at byte 10" },
        { "redis://h/-1", "the database at byte 10" },
        { "redis://h/2147483648", "the database at byte 10" },
        { "redis://h/1/2", "the database at byte 10" },
        { "redis://h/1?db=2", "parameter 'db' at byte 12 and the path" },
        { "redis://h?db=x", "parameter 'db' at byte 10" },
        { "redis://u:S3KR/3T@h", "an '@' at byte 17 after a '/'" },
        { "redis+unix://", "the path at byte 13 of the socket is missing" },
        { "redis+unix:///", "the path at byte 13 of the socket is missing" },
        { "redis+unix://run/s", "the path at byte 13 must begin with '/'" },
        { "redis+unix://" PATH_108, "the path at byte 13 is too long" },
        { "redis+unix:///s?tls=on", "parameter 'tls' at byte 16 has no meaning" },
        { "redis+sentinel://h", "the master's name at byte 18 is missing" },
        { "redis+sentinel://h/", "the master's name at byte 19 is missing" },
        { "redis+sentinel://h//1", "the master's name at byte 19 is missing" },
        { "redis+sentinel://h/a%0ab", "the master's name at byte 19" },
        { "redis+sentinel://h/m/x", "the database at byte 21" },
        { "redis+sentinel://a,,b/m", "the host at byte 19 is empty" },
        { "redis+cluster://h/1", "the database at byte 18" },
        { "redis+cluster://h?db=1", "parameter 'db' at byte 18 must be 0" },
        { "redis+other://h", "'redis+other' is no scheme" },
        { "redis://h?verify=off", "parameter 'verify' at byte 10 has a meaning with TLS only" },
        { "redis://h?ca=/x", "parameter 'ca' at byte 10 has a meaning with TLS only" },
        { "rediss://h?verify=no", "parameter 'verify' at byte 11 must be on or off" },
        { "rediss://h?cert=/x", "parameter 'cert' at byte 11 needs" },
        { "rediss://h?key=/x", "parameter 'key' at byte 11 needs" },
        { "redis://h?tls=yes", "parameter 'tls' at byte 10" },
        { "redis://h?connect_timeout=5", "parameter 'connect_timeout' at byte 10" },
        { "redis://h?op_timeout=0s", "parameter 'op_timeout' at byte 10" },
        { "redis://h?op_timeout=1d", "parameter 'op_timeout' at byte 10" },
        { "redis://h?ping=x", "parameter 'ping' at byte 10" },
        { "redis://h?poll=x", "parameter 'poll' at byte 10" },
        { "redis://h?sync=101", "parameter 'sync' at byte 10" },
        { "redis://h?sync_timeout=x", "parameter 'sync_timeout' at byte 10" },
        { "redis://h?wire=x", "parameter 'wire' at byte 10" },
        { "redis://h?repair_expiry=1s", "parameter 'repair_expiry' at byte 10" },
        { "redis://h?prefix={a", "parameter 'prefix' at byte 10" },
        { "redis://h?prefix=a}{b", "parameter 'prefix' at byte 10" },
        { "redis://h?prefix={}", "parameter 'prefix' at byte 10" },
        { "redis://h?prefix={a}{b}", "parameter 'prefix' at byte 10" },
        { "redis://h?prefix={{a}}", "parameter 'prefix' at byte 10" },
        { "redis://h?prefix=" LONG_NAME LONG_NAME, "parameter 'prefix' at byte 10" },
        { "redis://h?password_env=UNIT_NOT_SET", "parameter 'password_env' at byte 10" },
        { "redis://:S3KR3T@h?password_env=HOME", "parameter 'password_env' at byte 18" },
        { "redis://h?password_env=HOME&password_file=/dev/null", "names a second password" },
        { "redis://u:S3KR3T@h?user=v", "parameter 'user' at byte 19 is in the URL already" },
        { "redis://h?sentinel_user=x", "parameter 'sentinel_user' at byte 10 is not known" },
        { "redis+sentinel://h/m?sentinel_user=x", "parameter 'sentinel_user' at byte 21 needs" },
        { "redis://h?password=S3KR3T", "parameter 'password' at byte 10 is not known" },
        { "redis://h?unknown=1", "parameter 'unknown' at byte 10 is not known" },
    };

    (void)state;
    unsetenv("UNIT_NOT_SET");
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct hfi_redis_conf *conf = NULL;
        hf_error err;

        if (parse(cases[i].url, &conf, &err) != HF_CONFIG || !strstr(err.text, cases[i].has))
            fail_msg("%s: \"%s\" instead of \"...%s...\"", cases[i].url,
                     conf ? "accepted" : err.text, cases[i].has);
        assert_null(strstr(err.text, "S3KR"));
    }
}

static void too_many_hosts(void **state)
{
    char url[1000] = "redis+cluster://h0";
    struct hfi_redis_conf *conf = NULL;
    hf_error err;

    (void)state;
    for (int i = 1; i < HFI_HOSTS_MAX; i++)
        snprintf(url + strlen(url), sizeof url - strlen(url), ",h%d", i);
    assert_int_equal(parse(url, &conf, &err), HF_OK);
    assert_int_equal(conf->url.host_count, HFI_HOSTS_MAX);
    free_conf(conf);
    strcat(url, ",x");
    assert_int_equal(parse(url, &conf, &err), HF_CONFIG);
    assert_non_null(strstr(err.text, "one too many"));
}

static void files(void **state)
{
    static const struct {
        const char *form; /* with DIR */
        hf_status status;
        const char *has;
    } cases[] = {
        { "rediss://h?ca=DIR/none", HF_DENIED, "'ca' at byte 11 cannot be read: No such file" },
        { "rediss://h?ca=DIR/text", HF_CONFIG, "ca= DIR/text: " },
        { "rediss://h?cert=DIR/none&key=DIR/none", HF_DENIED,
          "'cert' at byte 11 cannot be read: No such file" },
        { "rediss://h?cert=DIR/text&key=DIR/text", HF_CONFIG, "cert= DIR/text: " },
        { "redis://h?password_file=DIR/none", HF_DENIED,
          "'password_file' at byte 10 cannot be read" },
        { "redis://h?password_file=DIR", HF_DENIED, "'password_file' at byte 10 is refused" },
        { "redis://h?password_file=/dev/null", HF_DENIED, "at byte 10 is refused" },
        { "redis://h?password_file=DIR/empty", HF_CONFIG,
          "'password_file' at byte 10 names a file" },
        { "redis://h?password_file=DIR/long", HF_CONFIG,
          "'password_file' at byte 10 names a file" },
    };
    char big[5000];

    (void)state;
    memset(big, 'S', sizeof big - 1);
    big[sizeof big - 1] = 0;
    write_file("text", "this is no certificate\n");
    write_file("empty", "\nsecond\n");
    write_file("long", big);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char texts[2][300] = { "", "" };
        const char *forms[2] = { cases[i].form, cases[i].has };
        struct hfi_redis_conf *conf = NULL;
        hf_error err;

        for (int t = 0; t < 2; t++)
            for (const char *c = forms[t]; *c;) {
                bool is_dir = strncmp(c, "DIR", 3) == 0;

                strncat(texts[t], is_dir ? dir : c, is_dir ? sizeof dir : 1);
                c += is_dir ? 3 : 1;
            }
        if (parse(texts[0], &conf, &err) != cases[i].status || !strstr(err.text, texts[1]))
            fail_msg("%s: %s", texts[0], conf ? "accepted" : err.text);
    }
}

/* Out of memory at each allocation in turn: an error, no leak, no crash. */
static void no_memory(void **state)
{
    hf_status status = HF_NO_MEMORY;
    unsigned long k = 0;

    (void)state;
    while (status == HF_NO_MEMORY) {
        struct hfi_redis_conf *conf = NULL;

        hfi_alloc_fail_at(++k, 0);
        status = parse("redis+sentinel://u:p@a,b/m/1?prefix=x&tls=on&sni=x", &conf, NULL);
        hfi_alloc_fail_at(0, 0);
        if (status == HF_OK)
            free_conf(conf);
    }
    assert_int_equal(status, HF_OK);
    assert_true(k > 10);
    free_conf(NULL);
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    static const char *const made[] = { "secret", "text", "empty", "long" };

    (void)state;
    for (size_t i = 0; i < COUNT(made); i++)
        unlink(path_of(made[i]));
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places),  cmocka_unit_test(addresses), cmocka_unit_test(parameters),
        cmocka_unit_test(secrets), cmocka_unit_test(refused),   cmocka_unit_test(too_many_hosts),
        cmocka_unit_test(files),   cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
