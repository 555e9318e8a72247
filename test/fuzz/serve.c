/* SPDX-License-Identifier: MIT */
/* What a client of holdfast serve sends: the request line, Host, Origin, Authorization, bodies; and what the operator's
 * token file says. The first byte says which. */
#include "fuzz.h"

#include "body.h"
#include "out.h"
#include "rights.h"
#include "uri.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void check_key(const struct bytes *name)
{
    char key[KEY_MAX], text[KEY_MAX + 40];
    struct uri uri;

    MUST(name->len <= HF_NAME_MAX);
    if (name->len == 0)
        return;
    uri_key(name->at, name->len, key);
    snprintf(text, sizeof text, "/api/v1/stores/0/names/%s", key);
    MUST(!uri_parse(text, &uri));
    MUST(uri.route == ROUTE_NAME && uri.name.len == name->len);
    MUST(memcmp(uri.name.at, name->at, name->len) == 0);
}

static void fuzz_uri(const char *text)
{
    struct uri uri;

    if (uri_parse(text, &uri))
        return;
    MUST(uri.route < ROUTE_COUNT);
    MUST(strlen(uri.path) < sizeof uri.path);
    MUST(!uri.lease[0] || strlen(uri.lease) == LEASE_ID_LEN);
    check_key(&uri.name);
    check_key(&uri.prefix);
    check_key(&uri.open_name);
}

/* An allowed host is ours or an address, with a port at most, whatever is around it. */
static void fuzz_host(const char *text)
{
    static const char *const names[] = { "localhost" };
    static const struct hosts hosts = { names, 1 };

    if (host_allowed(&hosts, text)) {
        size_t len = text[0] == '[' ? 1 + strspn(text + 1, "0123456789abcdefABCDEF:.") + 1
                     : strncasecmp(text, "localhost", 9) == 0 ? 9
                                                              : strspn(text, "0123456789.");

        MUST(strlen(text) >= len && len >= 4);
        MUST(text[0] != '[' || text[len - 1] == ']');
        MUST(text[len] == 0 || text[len] == ':');
        MUST(strspn(text + len, ":0123456789") == strlen(text + len));
    }
    if (origin_allowed(&hosts, text, "localhost"))
        MUST(strcasecmp(text, "http://localhost") == 0 ||
             strcasecmp(text, "https://localhost") == 0);
}

static void fuzz_rights(const char *text, size_t len)
{
    struct rights rights = { 0 };
    size_t line;

    if (rights_parse(text, len, &rights, &line))
        return;
    MUST(rights.count > 0 && rights.count <= CLIENTS_MAX);
    for (size_t i = 0; i < rights.count; i++) {
        const struct client *client = &rights.clients[i];
        char header[TOKEN_MAX + 8];

        MUST(client->name[0] && client->rights != 0);
        MUST(client->token_len > 0 || client->rights == RIGHT_READ);
        snprintf(header, sizeof header, "Bearer %.*s", (int)client->token_len,
                 (const char *)client->token);
        MUST(rights_find(&rights, client->token_len ? header : NULL) == client);
    }
    rights_done(&rights);
}

static void fuzz_token(const char *text)
{
    static const char file[] = "read - anybody\nread,lease 0123456789abcdef ours\n";
    struct rights rights;
    const struct client *client;
    size_t line;

    MUST(!rights_parse(file, sizeof file - 1, &rights, &line));
    client = rights_find(&rights, text);
    MUST(!client || (client->token_len == 16 && strstr(text, "0123456789abcdef")));
    rights_done(&rights);
}

static void fuzz_body(const char *text, size_t len)
{
    struct lease_body lease;
    struct break_body ending;
    char why[BODY_TEXT_MAX];
    int64_t ttl_ms;
    const char *wrong = body_lease(text, len, &lease, why);

    MUST(!wrong || wrong[0]);
    if (!wrong) {
        MUST(lease.name.len >= 1 && lease.name.len <= HF_NAME_MAX);
        MUST(lease.ttl_ms >= HF_TTL_MIN_MS && lease.ttl_ms <= TTL_MAX_MS);
        MUST(lease.wait_ms >= 0 && lease.wait_ms <= WAIT_MAX_MS);
        MUST(strlen(lease.label) <= HF_LABEL_MAX && is_utf8(lease.label, strlen(lease.label)));
        check_key(&lease.name);
    }
    if (!body_break(text, len, &ending, why))
        MUST(ending.token > 0 && ending.name.len >= 1);
    if (!body_renew(text, len, &ttl_ms, why))
        MUST(ttl_ms == 0 || (ttl_ms >= HF_TTL_MIN_MS && ttl_ms <= TTL_MAX_MS));
}

/* What we write of any bytes is JSON, and harmless in HTML and in an event. */
static void fuzz_written(const char *bytes, size_t len)
{
    struct out out = { 0 };

    out_open(&out, NULL, '{');
    out_name(&out, bytes, len < HF_NAME_MAX ? len : HF_NAME_MAX);
    out_close(&out, '}');
    out_bytes(&out, "", 1);
    MUST(!out.failed && is_utf8(out.at, out.len));
    MUST(strlen(out.at) == out.len - 1);
    for (size_t i = 0; i + 1 < out.len; i++)
        MUST((unsigned char)out.at[i] >= 0x20 && !strchr("<>&", out.at[i]));
    out_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text;

    if (size == 0)
        return 0;
    text = calloc(1, size);
    MUST(text);
    memcpy(text, data + 1, size - 1);
    switch (data[0] % 6) {
    case 0:
        fuzz_uri(text);
        break;
    case 1:
        fuzz_host(text);
        break;
    case 2:
        fuzz_rights(text, size - 1);
        break;
    case 3:
        fuzz_token(text);
        break;
    case 4:
        fuzz_body(text, size - 1);
        break;
    default:
        fuzz_written(text, size - 1);
        break;
    }
    free(text);
    return 0;
}
