/* SPDX-License-Identifier: MIT */
/* Whether the terminal shows UTF-8. */
#include "screen.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The name that decides, as setlocale(3) looks for it. */
static const char *locale_name(void)
{
    static const char *const variables[] = { "LC_ALL", "LC_CTYPE", "LANG" };

    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *name = getenv(variables[i]);

        if (name && *name)
            return name;
    }
    return "C";
}

/* "zh_CN.UTF-8", "de_DE.utf8@euro", "UTF-8" */
static bool says_utf8(const char *name)
{
    const char *codeset = strchr(name, '.');
    size_t len;

    codeset = codeset ? codeset + 1 : name;
    len = strcspn(codeset, "@");
    return (len == 5 && strncasecmp(codeset, "UTF-8", len) == 0) ||
           (len == 4 && strncasecmp(codeset, "utf8", len) == 0);
}

bool screen_locale(void)
{
    if (setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0)
        return true;
    return says_utf8(locale_name()) && setlocale(LC_CTYPE, "C.UTF-8");
}
