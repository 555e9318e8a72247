/* SPDX-License-Identifier: MIT */
/* Values: see value.h. Main thread. */
#include "value.h"

#include "util/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int value_read(const char *given, size_t most, struct content *ret_value)
{
    size_t got;

    if (given && strcmp(given, "-") != 0) {
        ret_value->bytes = must_strdup(given);
        ret_value->len = strlen(given);
        return EXIT_FINE;
    }
    ret_value->bytes = must_alloc(most + 1);
    ret_value->len = 0;
    do {
        got = fread(ret_value->bytes + ret_value->len, 1, most + 1 - ret_value->len, stdin);
        ret_value->len += got;
    } while (got > 0 && ret_value->len <= most);
    if (!ferror(stdin))
        return EXIT_FINE;
    free(ret_value->bytes);
    say_error("standard input: %s", strerror(errno));
    return EXIT_NO_INPUT;
}

void value_print(const void *bytes, size_t len)
{
    if (!isatty(STDOUT_FILENO)) {
        fwrite(bytes, 1, len, stdout);
        return;
    }
    out_safe(bytes, len);
    putchar('\n');
}

void value_to_json(json_t *object, const void *bytes, size_t len)
{
    json_t *plain = json_stringn(bytes, len);
    char *hex;

    json_object_set_new(object, "value", plain ? plain : json_null());
    if (plain)
        return;
    hex = must_alloc(2 * len + 1); /* not UTF-8 */
    hfi_hex(bytes, len, hex);
    json_object_set_new(object, "value_hex", json_string(hex));
    free(hex);
}
