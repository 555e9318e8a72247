/* SPDX-License-Identifier: MIT */
/* Names and texts of statuses, and our version. */
#include "holdfast/holdfast.h"

#define TEXT_OF(x)                      #x
#define VERSION_OF(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *hf_version(void)
{
    return VERSION_OF(HF_VERSION_MAJOR, HF_VERSION_MINOR, HF_VERSION_PATCH);
}

int hf_version_number(void)
{
    return HF_VERSION_NUMBER;
}

const char *hf_status_name(hf_status status)
{
    switch (status) {
#define STATUS_NAME(name, number, text) \
    case HF_##name:                     \
        return #name;
        HF_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
    }
    return "?";
}

const char *hf_status_text(hf_status status)
{
    switch (status) {
#define STATUS_TEXT(name, number, text) \
    case HF_##name:                     \
        return text;
        HF_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "a status that this version does not know";
}
