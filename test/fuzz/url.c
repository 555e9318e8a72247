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

/* No password of the user-info or of password= is shown, nor in an engine's words. */
static bool shows(const char *where, const struct hfi_url *url)
{
    const char *from = strncmp(url->rest, "//", 2) == 0 ? url->rest + 2 : NULL;
    const char *at = from ? strrchr(from, '@') : NULL, *colon = from ? strchr(from, ':') : NULL;
    bool shown;
    char *secret;

    /* A short password may occur elsewhere by coincidence; one with escapes may not be found
     * literally; one that is in the URL twice may be shown at its other place. */
    if (!at || !colon || colon > at || at - colon < 8 || memchr(colon, '%', (size_t)(at - colon)) ||
        memchr(from, '/', (size_t)(at - from)))
        return false;
    secret = fuzz_text(colon + 1, (size_t)(at - colon - 1));
    shown = strstr(where, secret) && !strstr(strstr(url->text, secret) + 1, secret);
    free(secret);
    return shown;
}

/* `text` may choose any engine's tables, whatever its scheme says. */
static void check_engines(struct hfi_url *url)
{
    static const struct hfi_form sql_forms[] = { { "postgresql", 0, 16, 0xe1u, NULL },
                                                 { .scheme = NULL } };
    static const struct hfi_param sql_params[] = { SQL_PARAMS, { .name = NULL } };
    static const struct hfi_conf_type sql_type = { sizeof(struct sql_conf), sql_forms, sql_params };
    const struct hfi_conf_type *const types[] = { &redis_conf_type, &memcached_conf_type,
                                                  &etcd_conf_type, &zk_conf_type, &sql_type };
    hf_error err = { .text = "" };

    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
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
        MUST(!shows(err.text, url) && memchr(err.text, 0, sizeof err.text));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *text = fuzz_text(data, len), *shown;
    struct hfi_url url;
    hf_error err = { .text = "" };

    if (strstr(text, "_file=") || strstr(text, "ca=") || strstr(text, "cert=") ||
        strstr(text, "key="))
        goto done; /* it would be opened */
    if (hfi_url_parse(text, &url, &err) == HF_OK) {
        shown = hfi_url_redacted(&url);
        MUST(shown && (strcmp(url.scheme, "file") == 0 || !shows(shown, &url)));
        hfi_free(shown);
        check_engines(&url);
        check_parts(&url, text);
        hfi_url_done(&url);
    } else {
        MUST(err.status == HF_CONFIG && memchr(err.text, 0, sizeof err.text));
    }
    (void)hfi_url_decode(text);
done:
    free(text);
    return 0;
}
