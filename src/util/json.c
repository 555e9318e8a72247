/* SPDX-License-Identifier: MIT */
/* JSON that is safe to print. For programs: what the library itself allocates goes through its allocator. */
#include "util/json.h"

#include "util/text.h"

#include <stdlib.h>
#include <string.h>

char *hfi_json_escape(char *text)
{
    char escape[HFI_JSON_ESCAPE], *escaped, *to;
    size_t len = text ? strlen(text) : 0, more = 0, n;

    for (size_t i = 0; i < len; i++)
        if (hfi_json_unseen(text + i, len - i, escape))
            more += HFI_JSON_ESCAPE;
    if (more == 0)
        return text;
    escaped = to = malloc(len + more + 1);
    for (size_t i = 0; escaped && i < len; i += n) {
        n = hfi_json_unseen(text + i, len - i, escape);
        if (n) {
            to = stpcpy(to, escape);
        } else {
            *to++ = text[i];
            n = 1;
        }
    }
    if (escaped)
        *to = 0;
    free(text);
    return escaped;
}
