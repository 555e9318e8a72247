/* SPDX-License-Identifier: MIT */
/* The tables of a memcached store's URL. Pure. */
#include "engine/memcached/conf.h"

#include "engine/memcached/record.h"
#include "util/error.h"

#include <string.h>

#define PREFIX       "hf:"
#define WORD_MAX     200 /* of a user and of a password: the server reads both from one short line */
#define LIMIT_MIN_MS 10
#define LIMIT_MAX_MS (INT64_C(10) * 60 * 1000)

static const struct hfi_form forms[] = {
    { "memcached", MEMCACHED_PORT, 1, 0, NULL },
    { "memcached+unix", 0, 1, HFI_FORM_SOCKET, NULL },
    { .scheme = NULL },
};

#define AT(member) offsetof(struct memcached_conf, member)
static const struct hfi_param params[] = {
    { "prefix", HFI_PARAM_TEXT, AT(prefix), 0, MEMCACHED_PREFIX_MAX, 0, PREFIX },
    { "connect_timeout", HFI_PARAM_DURATION, AT(connect_ms), LIMIT_MIN_MS, LIMIT_MAX_MS, 2000,
      NULL },
    { "op_timeout", HFI_PARAM_DURATION, AT(op_ms), LIMIT_MIN_MS, LIMIT_MAX_MS, 5000, NULL },
    { "poll", HFI_PARAM_DURATION, AT(poll_ms), 1, LIMIT_MAX_MS, 100, NULL },
    { .name = NULL },
};

const struct hfi_conf_type memcached_conf_type = { sizeof(struct memcached_conf), forms, params };

static bool is_word(const char *text)
{
    for (const char *c = text; *c; c++)
        if (!memcached_key_byte((unsigned char)*c))
            return false;
    return *text != 0 && strlen(text) <= WORD_MAX;
}

hf_status memcached_conf_finish(struct memcached_conf *conf, hf_error *err)
{
    struct hfi_conf *url = &conf->url;

    for (const char *c = conf->prefix; *c; c++)
        if (!memcached_key_byte((unsigned char)*c))
            return hfi_conf_refuse(url, "prefix", "has a space or a control character", err);
    if (url->user && (!is_word(url->user) || !is_word(url->secret)))
        return hfi_error_set(err, HF_CONFIG, 0,
                             "store URL: user and password must be one word each, of at most %d "
                             "bytes",
                             WORD_MAX);
    conf->location = hfi_conf_select(url, url->location, "prefix",
                                     strcmp(conf->prefix, PREFIX) == 0 ? NULL : conf->prefix);
    return conf->location ? HF_OK : hfi_error_memory(err);
}
