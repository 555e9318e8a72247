/* SPDX-License-Identifier: MIT */
/* Secrets in store URLs, as the command takes them out of argv and out of its child's environment. */
#include "fuzz.h"

#include "core/url.h"
#include "secret.h"
#include "util/alloc.h"

/* What the library shows of a URL without secrets is the URL itself: both judge alike. */
static void judged_alike(const char *clean)
{
    struct hfi_url url;
    char *shown;

    if (hfi_url_parse(clean, &url, NULL) != HF_OK)
        return;
    shown = hfi_url_redacted(&url);
    MUST(shown);
    for (size_t i = 0; i < url.param_count; i++)
        MUST(strcmp(url.params[i].key, "password") != 0);
    hfi_free(shown);
    hfi_url_done(&url);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *text = fuzz_text(data, len), *wiped = fuzz_text(data, len);
    char *clean = url_without_secrets(text), *with, *param, *less;
    const char *wrong = NULL;

    hfi_url_wipe(wiped);
    MUST(strlen(wiped) == strlen(text)); /* in place */
    if (clean) {
        MUST(strlen(clean) <= strlen(text) + 16);
        judged_alike(clean);
    }
    with = hfi_url_with_password(text, "p/w:@%", &wrong);
    MUST(with || wrong);
    if (with)
        MUST(hfi_url_has_secret(with));
    param = hfi_url_value(text, "password_env");
    less = hfi_url_without(text, "password_env");
    MUST(less && strlen(less) <= strlen(text));
    MUST(!param || strlen(less) < strlen(text));
    hfi_free(less);
    hfi_free(param);
    hfi_free(with);
    free(clean);
    free(wiped);
    free(text);
    return 0;
}
