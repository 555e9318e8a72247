/* SPDX-License-Identifier: MIT */
/* The tables of an etcd store's URL, and its path: a prefix of keys. Pure but for memory. */
#include "engine/etcd/conf.h"

#include "util/error.h"
#include "util/text.h"

#include <stdio.h>
#include <string.h>

#define LIMIT_MIN_MS 1
#define LIMIT_MAX_MS (10 * 60 * 1000)
#define PREFIX       "holdfast"

static const struct hfi_form forms[] = {
    { "etcd", ETCD_PORT, ETCD_HOSTS_MAX, HFI_FORM_PATH | HFI_FORM_TLS_SCHEME, NULL },
    { "etcds", ETCD_PORT, ETCD_HOSTS_MAX, HFI_FORM_PATH | HFI_FORM_TLS, NULL },
    { .scheme = NULL },
};

#define AT(member) offsetof(struct etcd_conf, member)
static const struct hfi_param params[] = {
    { "connect_timeout", HFI_PARAM_DURATION, AT(connect_ms), LIMIT_MIN_MS, LIMIT_MAX_MS, 2000,
      NULL },
    { "op_timeout", HFI_PARAM_DURATION, AT(op_ms), LIMIT_MIN_MS, LIMIT_MAX_MS, 5000, NULL },
    { "ping", HFI_PARAM_DURATION, AT(ping_ms), LIMIT_MIN_MS, LIMIT_MAX_MS, 2000, NULL },
    { .name = NULL },
};

const struct hfi_conf_type etcd_conf_type = { sizeof(struct etcd_conf), forms, params };

/* "/team/locks/" is the prefix "team/locks". */
hf_status etcd_conf_finish(struct etcd_conf *conf, hf_error *err)
{
    struct hfi_conf *url = &conf->url;
    char shown[HFI_QUOTED_MAX];
    size_t len = strlen(url->path);

    conf->prefix = PREFIX;
    if (len > 0) {
        hf_status status = hfi_conf_part(url, url->path, len, "the prefix", &conf->prefix, err);

        if (status != HF_OK)
            return status;
        len = strlen(conf->prefix);
        while (len > 0 && conf->prefix[len - 1] == '/')
            len--;
        if (len == 0 || len > ETCD_PREFIX_MAX)
            return hfi_conf_refuse_path(url, url->path, "the prefix", "must have 1 to 128 bytes",
                                        err);
        conf->prefix = hfi_conf_keep(url, conf->prefix, len);
    }
    if (conf->prefix)
        conf->location =
            hfi_conf_print(url, "%s/%s", url->location,
                           hfi_quote_name(conf->prefix, strlen(conf->prefix), shown, sizeof shown));
    return conf->location ? HF_OK : hfi_error_memory(err);
}
