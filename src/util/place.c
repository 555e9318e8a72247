/* SPDX-License-Identifier: MIT */
/* Which store is meant: see place.h. On the calling thread. */
#include "util/place.h"

#include "util/alloc.h"
#include "util/error.h"
#include "util/handed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hf_status of_profile(const char *name, struct hfi_place *place, hf_error *err)
{
    struct hfi_profile profile;
    hf_status status = hfi_profile_find(name, &profile, err);

    if (status != HF_OK)
        return status;
    place->url = profile.url ? profile.url : hfi_strdup(HFI_PLACE_URL);
    place->instead = profile.name;
    place->password_env = profile.password_env;
    place->has_password = profile.has_password;
    snprintf(place->source, sizeof place->source, "%s", profile.url ? profile.from : HFI_BUILT_IN);
    return place->url ? HF_OK : hfi_error_memory(err);
}

/* `around`: HOLDFAST_STORE. A `holdfast run` that has set it may have taken a password out of it, and
 * hands that on. */
static hf_status of_spec(const char *spec, const char *around, struct hfi_place *place,
                         hf_error *err)
{
    bool is_url = strchr(spec, ':');

    if (around && strcmp(spec, around) == 0 && hfi_handed_any()) {
        place->url = hfi_handed_url(spec);
        place->has_password = place->url;
        place->stripped = !place->url;
    }
    if (!place->url && !is_url)
        return of_profile(spec, place, err);
    if (place->url)
        place->instead = hfi_strdup(spec);
    else
        place->url = hfi_strdup(spec);
    return place->url && (!place->has_password || place->instead) ? HF_OK : hfi_error_memory(err);
}

hf_status hfi_place_find(const char *spec, const char *giver, struct hfi_place *ret_place,
                         hf_error *err)
{
    const char *around = secure_getenv("HOLDFAST_STORE");
    struct hfi_place place = { .url = NULL };
    hf_status status;

    if (!spec && around) {
        spec = around;
        giver = "HOLDFAST_STORE";
    }
    if (spec && !*spec)
        return hfi_error_set(err, HF_CONFIG, 0,
                             "the store from %s is empty: give a URL or the name of a profile",
                             giver);
    if (spec)
        snprintf(place.source, sizeof place.source, "%s", giver);
    status = spec ? of_spec(spec, around, &place, err) : of_profile(NULL, &place, err);
    if (status == HF_OK) {
        *ret_place = place;
        return HF_OK;
    }
    status = hfi_place_explain(&place, status, err);
    hfi_place_done(&place);
    return status;
}

hf_status hfi_place_explain(const struct hfi_place *place, hf_status status, hf_error *err)
{
    if (place->stripped && (status == HF_DENIED || status == HF_CONFIG))
        hfi_error_wrap(err, "`holdfast` took the password out of HOLDFAST_STORE for this command, "
                            "and no open descriptor hands it on: use password_file=");
    return status;
}

void hfi_place_done(struct hfi_place *place)
{
    if (place->url)
        explicit_bzero(place->url, strlen(place->url));
    hfi_free(place->url);
    hfi_free(place->instead);
    hfi_free(place->password_env);
    *place = (struct hfi_place){ .url = NULL };
}
