/* SPDX-License-Identifier: MIT */
/* The routes and openapi.json name the same; keys; listening addresses. */
#include "listen.h"
#include "uri.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

static void openapi_names_all_routes(void **state)
{
    json_t *root = json_load_file(OPENAPI, JSON_REJECT_DUPLICATES, NULL);
    json_t *paths = json_object_get(root, "paths");
    size_t count = 0;

    (void)state;
    assert_non_null(paths);
    for (int route = ROUTE_NONE + 1; route < ROUTE_COUNT; route++) {
        const char *path = route_path((enum route)route);
        json_t *item;
        const char *word;
        json_t *value;
        char methods[64] = "";

        if (!path)
            continue;
        count++;
        item = json_object_get(paths, path);
        if (!item)
            fail_msg("openapi.json has no %s", path);
        json_object_foreach(item, word, value) if (strcmp(word, "parameters") != 0)
            snprintf(methods + strlen(methods), sizeof methods - strlen(methods), "%s%s",
                     methods[0] ? ", " : "", word);
        if (strcasecmp(methods, route_methods((enum route)route)) != 0)
            fail_msg("%s: openapi.json has %s, the routes have %s", path, methods,
                     route_methods((enum route)route));
    }
    assert_int_equal(count, json_object_size(paths));
    json_decref(root);
}

/* A path of openapi.json, filled in, is that route. */
static void openapi_paths_are_routes(void **state)
{
    (void)state;
    for (int route = ROUTE_NONE + 1; route < ROUTE_COUNT; route++) {
        const char *from = route_path((enum route)route);
        char text[200] = "";
        struct uri uri;

        while (from && *from) {
            const char *fill = strncmp(from, "{store}", 7) == 0 ? "7"
                               : strncmp(from, "{key}", 5) == 0 ? "a%2Fb"
                               : strncmp(from, "{lease}", 7) == 0
                                   ? "0123456789abcdef0123456789abcdef"
                                   : NULL;
            size_t len = strlen(text);

            snprintf(text + len, sizeof text - len, "%.*s", fill ? (int)strlen(fill) : 1,
                     fill ? fill : from);
            from = fill ? strchr(from, '}') + 1 : from + 1;
        }
        if (!text[0])
            continue;
        assert_null(uri_parse(text, &uri));
        assert_int_equal(uri.route, route);
    }
}

static void keys_come_back(void **state)
{
    unsigned char name[HF_NAME_MAX];
    char key[KEY_MAX], text[KEY_MAX + 40];
    struct uri uri;

    (void)state;
    for (size_t len = 1; len <= HF_NAME_MAX; len += 7) {
        for (size_t i = 0; i < len; i++)
            name[i] = (unsigned char)(i * 37 + len);
        uri_key(name, len, key);
        snprintf(text, sizeof text, "/api/v1/stores/0/names/%s", key);
        assert_null(uri_parse(text, &uri));
        assert_int_equal(uri.route, ROUTE_NAME);
        assert_int_equal(uri.name.len, len);
        assert_memory_equal(uri.name.at, name, len);
        snprintf(text, sizeof text, "/api/v1/watch?open=3/%s", key);
        assert_null(uri_parse(text, &uri));
        assert_int_equal(uri.open_store, 3);
        assert_int_equal(uri.open_name.len, len);
        assert_memory_equal(uri.open_name.at, name, len);
    }
    uri_key("..", 2, key);
    assert_string_equal(key, "%2E%2E");
}

static void addresses(void **state)
{
    static const char *const bad[] = { "",      "host",      "host:", "host:99999", ":80",
                                       "::1:8", "unix:here", "unix:", "[::1]",      "h:8x" };
    struct listen_at at;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (!listen_parse(bad[i], &at))
            fail_msg("'%s' was taken", bad[i]);
    assert_null(listen_parse("[::1]:80", &at));
    assert_string_equal(at.host, "::1");
    assert_null(listen_parse("unix:/run/x", &at));
    assert_string_equal(at.path, "/run/x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(openapi_names_all_routes),
        cmocka_unit_test(openapi_paths_are_routes),
        cmocka_unit_test(keys_come_back),
        cmocka_unit_test(addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
