/* SPDX-License-Identifier: MIT */
/* Store URLs: taken apart, shown without their secrets; and what each engine makes of one. */
#include "fuzz.h"

#include "core/conf.h"
#include "engine/etcd/conf.h"
#include "engine/memcached/conf.h"
#include "engine/redis/conf.h"
#include "engine/sql/internal.h"
#include "engine/zookeeper/conf.h"
#include "util/alloc.h"

/* Every parameter is found, once; what is shown is a URL too. */
static void check_parts(struct hfi_url *url, const char *text)
{
    char *shown = hfi_url_redacted(url);
    struct hfi_url again;

    MUST(shown && strcmp(url->text, text) == 0 && !strchr(url->rest, '?'));
    MUST(url->param_count <= HFI_URL_PARAMS_MAX);
    for (size_t i = 0; i < url->param_count; i++) {
        MUST(url->params[i].at < strlen(text) && *url->params[i].key);
        MUST(hfi_url_take(url, url->params[i].key) == url->params[i].value);
    }
    MUST(hfi_url_all_taken(url, NULL) == HF_OK);
    if (strlen(shown) <= HFI_URL_MAX) {
        MUST(hfi_url_parse(shown, &again, NULL) == HF_OK);
        MUST(strcmp(again.scheme, url->scheme) == 0 && again.param_count == url->param_count);
        hfi_url_done(&again);
    }
    hfi_free(shown);
}

#define ENGINES 5

/* What is told of a URL. */
struct said {
    char *shown;
    char errors[ENGINES][sizeof(((hf_error *)0)->text)];
};

/* `text` may choose any engine's tables, whatever its scheme says. */
static void ask_engines(struct hfi_url *url, struct said *said)
{
    static const struct hfi_form sql_forms[] = { { "postgresql", 0, 16, 0xe1u, NULL },
                                                 { .scheme = NULL } };
    static const struct hfi_param sql_params[] = { SQL_PARAMS, { .name = NULL } };
    static const struct hfi_conf_type sql_type = { sizeof(struct sql_conf), sql_forms, sql_params };
    const struct hfi_conf_type *const types[ENGINES] = { &redis_conf_type, &memcached_conf_type,
                                                         &etcd_conf_type, &zk_conf_type,
                                                         &sql_type };
    hf_error err = { .text = "" };

    for (size_t i = 0; i < ENGINES; i++) {
        struct hfi_conf *conf = NULL;

        if (hfi_conf_read(url, types[i], &conf, &err) == HF_OK) {
            MUST(conf->host_count > 0 && conf->host_count <= HFI_HOSTS_MAX);
            if (i == 0) {
                (void)redis_conf_finish((struct hfi_redis_conf *)conf, "fuzz", &err);
                redis_conf_done((struct hfi_redis_conf *)conf);
            }
            if (i == 1)
                (void)memcached_conf_finish((struct memcached_conf *)conf, &err);
            if (i == 2)
                (void)etcd_conf_finish((struct etcd_conf *)conf, &err);
            if (i == 3)
                (void)zk_conf_finish((struct zk_conf *)conf, &err);
            if (i == 4)
                (void)sql_conf_finish((struct sql_conf *)conf, &err);
        }
        hfi_conf_free(conf);
        MUST(memchr(err.text, 0, sizeof err.text));
        memcpy(said->errors[i], err.text, sizeof err.text);
    }
}

/* The password of the user-info, if it is long enough that it stands elsewhere only by coincidence, and has no escapes; else NULL. */
static char *find_password(struct hfi_url *url, size_t *ret_len)
{
    char *from = strncmp(url->rest, "//", 2) == 0 ? url->rest + 2 : NULL;
    char *at = from ? strrchr(from, '@') : NULL, *colon = from ? strchr(from, ':') : NULL;

    if (!at || !colon || colon > at || at - colon < 8 || memchr(colon, '%', (size_t)(at - colon)) ||
        memchr(from, '/', (size_t)(at - from)))
        return NULL;
    *ret_len = (size_t)(at - colon - 1);
    return url->text + strlen(url->scheme) + 1 + (colon + 1 - url->rest);
}

/* A password may also be a word of an engine's, or stand at another place of the URL ("ostgres" in postgresql://ostgres@).
 * Then the same is told of this URL with another password: letters and digits are exchanged for others. */
static void check_secret(struct hfi_url *url, const struct said *said)
{
    size_t len;
    char *password = find_password(url, &len), *secret;
    struct said other = { .shown = NULL };
    struct hfi_url changed;

    if (!password)
        return;
    secret = fuzz_text(password, len);
    for (size_t i = 0; i < len; i++)
        password[i] = password[i] >= '0' && password[i] <= '9'                     ? '7'
                      : (password[i] | 0x20) >= 'a' && (password[i] | 0x20) <= 'z' ? 'q'
                                                                                   : password[i];
    if (hfi_url_parse(url->text, &changed, NULL) == HF_OK) {
        other.shown = hfi_url_redacted(&changed);
        ask_engines(&changed, &other);
        MUST(strcmp(url->scheme, "file") == 0 || !strstr(said->shown, secret) ||
             strstr(other.shown, secret));
        for (size_t i = 0; i < ENGINES; i++)
            MUST(!strstr(said->errors[i], secret) || strstr(other.errors[i], secret));
        hfi_url_done(&changed);
    }
    hfi_free(other.shown);
    free(secret);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *text = fuzz_text(data, len);
    struct said said = { .shown = NULL };
    struct hfi_url url;
    hf_error err = { .text = "" };

    if (strstr(text, "_file=") || strstr(text, "ca=") || strstr(text, "cert=") ||
        strstr(text, "key="))
        goto done; /* it would be opened */
    if (hfi_url_parse(text, &url, &err) == HF_OK) {
        said.shown = hfi_url_redacted(&url);
        MUST(said.shown);
        ask_engines(&url, &said);
        check_parts(&url, text);
        check_secret(&url, &said);
        hfi_free(said.shown);
        hfi_url_done(&url);
    } else {
        MUST(err.status == HF_CONFIG && memchr(err.text, 0, sizeof err.text));
    }
    (void)hfi_url_decode(text);
done:
    free(text);
    return 0;
}
