/* SPDX-License-Identifier: MIT */
/* `holdfast lock-sql NAME`: print the SQL that locks NAME inside a transaction of one's own. No server is connected to. */
#include "holdfast/primitives.h"
#include "json.h"
#include "secret.h"
#include "store.h"
#include "table.h"

#include <stdlib.h>
#include <string.h>

static int print(const struct cli *cli, const char *sql)
{
    json_t *object;

    if (cli->args.json) {
        object = json_object();
        json_set_name(object, cli->args.name, strlen(cli->args.name));
        json_object_set_new(object, "sql", json_string(sql));
        json_print(object, true);
    } else {
        fputs(sql, stdout);
    }
    return out_finish(cli);
}

int verb_lock_sql(struct cli *cli)
{
    hf_sql_lock_request request = HF_SQL_LOCK_REQUEST_INIT;
    char *url = NULL, *sql = NULL;
    hf_error err;
    int code = need_name(cli);

    if (code == EXIT_FINE && cli->args.shared && cli->args.exclusive)
        code = usage_error(cli, "-s and -x exclude each other");
    if (code == EXIT_FINE)
        code = store_url(cli, NULL, &url);
    if (code != EXIT_FINE)
        return code;
    if (strcmp(url, PLACE_BUILT_IN) == 0) {
        free(url);
        say_error("no database: give -S URL (the embedded store has no transactions)");
        return EXIT_CONFIG;
    }
    request.url = url;
    request.name = cli->args.name;
    request.name_len = strlen(cli->args.name);
    request.kind = cli->args.shared ? HF_KIND_SHARED : HF_KIND_EXCLUSIVE;
    request.wait_ms = cli->args.nonblock ? 0 : HF_FOREVER;
    if (hf_sql_get_lock(&request, &sql, &err) == HF_OK)
        code = print(cli, sql);
    else
        code = say_failure(&err);
    secret_free(url);
    hf_free(sql);
    return code;
}
