/* SPDX-License-Identifier: MIT */
/* The parameters of a store's URL, each read by its row into the engine's struct. See conf.h. */
#include "core/conf.h"

#include "util/error.h"
#include "util/text.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

hf_status hfi_conf_switch(struct hfi_conf *conf, const char *key, bool *value, hf_error *err)
{
    const char *text = hfi_url_take(conf->url, key);

    if (!text)
        return HF_OK;
    if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0)
        return hfi_conf_refuse(conf, key, "must be on or off", err);
    *value = strcmp(text, "on") == 0;
    return HF_OK;
}

static void store(void *target, const struct hfi_param *row, const void *value, size_t size)
{
    memcpy((char *)target + row->offset, value, size);
}

/* "must be native, plain or redisson", and the index of `text` among them; -1: none. */
static int find_word(const char *words, const char *text, char *ret_why, size_t size)
{
    size_t used = (size_t)snprintf(ret_why, size, "must be ");
    int index = 0, found = -1;

    for (const char *at = words; *at; index++) {
        size_t len = strcspn(at, " ");
        const char *next = at + len + (at[len] == ' ');

        if (strlen(text) == len && memcmp(text, at, len) == 0)
            found = index;
        if (used < size)
            used += (size_t)snprintf(ret_why + used, size - used, "%s%.*s",
                                     index == 0 ? ""
                                     : *next    ? ", "
                                                : " or ",
                                     (int)len, at);
        at = next;
    }
    return found;
}

static hf_status read_choice(struct hfi_conf *conf, const struct hfi_param *row, const char *text,
                             void *target, hf_error *err)
{
    int value = (int)row->value;
    char why[160];

    if (text)
        value = find_word(row->words, text, why, sizeof why);
    if (value < 0)
        return hfi_conf_refuse(conf, row->name, why, err);
    store(target, row, &value, sizeof value);
    return HF_OK;
}

static hf_status read_number(struct hfi_conf *conf, const struct hfi_param *row, const char *text,
                             void *target, hf_error *err)
{
    uint64_t number = (uint64_t)row->value;
    const char *wrong =
        text ? hfi_parse_u64(text, (uint64_t)row->least, (uint64_t)row->most, &number) : NULL;
    uint32_t value = (uint32_t)number;

    if (wrong)
        return hfi_conf_refuse(conf, row->name, wrong, err);
    store(target, row, &value, sizeof value);
    return HF_OK;
}

static hf_status read_duration(struct hfi_conf *conf, const struct hfi_param *row, const char *text,
                               void *target, hf_error *err)
{
    int64_t ms = row->value;
    const char *wrong = text ? hfi_parse_duration(text, &ms) : NULL;
    char why[60], limit[24];

    if (!wrong && text && (ms < row->least || ms > row->most)) {
        bool is_short = ms < row->least;

        snprintf(why, sizeof why, "is too %s: at %s %s", is_short ? "short" : "long",
                 is_short ? "least" : "most",
                 hfi_format_duration(is_short ? row->least : row->most, limit, sizeof limit));
        wrong = why;
    }
    if (wrong)
        return hfi_conf_refuse(conf, row->name, wrong, err);
    store(target, row, &ms, sizeof ms);
    return HF_OK;
}

static hf_status read_text(struct hfi_conf *conf, const struct hfi_param *row, const char *text,
                           void *target, hf_error *err)
{
    const char *value = row->words;
    hf_status status = HF_OK;
    char why[60];

    if (text && row->most > 0 && strlen(text) > (size_t)row->most) {
        snprintf(why, sizeof why, "has more than %lld bytes", (long long)row->most);
        return hfi_conf_refuse(conf, row->name, why, err);
    }
    if (text)
        status = hfi_conf_copy(conf, text, &value, err);
    store(target, row, &value, sizeof value);
    return status;
}

static hf_status read_param(struct hfi_conf *conf, const struct hfi_param *row, void *target,
                            hf_error *err)
{
    const char *text, *secret = NULL;
    bool on = row->value != 0;
    hf_status status = HF_OK;

    if (row->type == HFI_PARAM_SECRET) { /* its parameters have other names */
        status = hfi_conf_secret(conf, row->name, NULL, &secret, err);
        store(target, row, &secret, sizeof secret);
        return status;
    }
    if (row->type == HFI_PARAM_REST)
        return HF_OK;
    text = hfi_url_take(conf->url, row->name);
    switch (row->type) {
    case HFI_PARAM_TEXT:
        return read_text(conf, row, text, target, err);
    case HFI_PARAM_NUMBER:
        return read_number(conf, row, text, target, err);
    case HFI_PARAM_DURATION:
        return read_duration(conf, row, text, target, err);
    case HFI_PARAM_SWITCH:
        status = hfi_conf_switch(conf, row->name, &on, err);
        store(target, row, &on, sizeof on);
        return status;
    case HFI_PARAM_CHOICE:
        return read_choice(conf, row, text, target, err);
    case HFI_PARAM_REFUSED:
        return text ? hfi_conf_refuse(conf, row->name, row->words, err) : HF_OK;
    case HFI_PARAM_SECRET:
    case HFI_PARAM_REST:
        break;
    }
    return status;
}

hf_status hfi_conf_params(struct hfi_conf *conf, const struct hfi_param *params, void *target,
                          hf_error *err)
{
    hf_status status = HF_OK;

    for (const struct hfi_param *row = params; row->name && status == HF_OK; row++)
        status = read_param(conf, row, target, err);
    return status;
}

hf_status hfi_conf_read_params(struct hfi_url *url, const struct hfi_param *params, void *ret,
                               hf_error *err)
{
    struct hfi_conf conf = { .url = url };

    return hfi_conf_params(&conf, params, ret, err);
}

/* Parameters without a row: passed to the engine's library if the table has a row for that, else
 * refused. */
hf_status hfi_conf_rest(struct hfi_conf *conf, const struct hfi_param *params, hf_error *err)
{
    struct hfi_rest rest = { .count = 0 };
    hf_status status = HF_OK;

    _Static_assert(sizeof rest.items / sizeof *rest.items >= HFI_URL_PARAMS_MAX, "one for each");
    while (params->name && params->type != HFI_PARAM_REST)
        params++;
    if (!params->name)
        return hfi_url_all_taken(conf->url, err);
    for (size_t i = 0; i < conf->url->param_count && status == HF_OK; i++) {
        struct hfi_url_param *param = &conf->url->params[i];

        if (param->taken)
            continue;
        param->taken = true;
        status = hfi_conf_copy(conf, param->key, &rest.items[rest.count].key, err);
        if (status == HF_OK)
            status = hfi_conf_copy(conf, param->value, &rest.items[rest.count].value, err);
        rest.count += status == HF_OK;
    }
    store(conf, params, &rest, sizeof rest);
    return status;
}
