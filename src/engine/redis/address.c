/* SPDX-License-Identifier: MIT */
/* Addresses that a server sent; see address.h. Pure but for the heap. */
#include "engine/redis/address.h"

#include "util/alloc.h"
#include "util/text.h"

#include <stdio.h>
#include <string.h>

#define HOST_MAX  253
#define SLOT_LAST 16383

/* A name or an address, without any byte that could have another meaning where it is used. */
static bool is_host(const char *host, size_t len)
{
    static const char good[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%";

    if (len == 0 || len > HOST_MAX)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!host[i] || !strchr(good, host[i]))
            return false;
    return true;
}

struct hfi_address *hfi_address_new(const char *host, size_t len, uint16_t port)
{
    struct hfi_address *address;
    size_t size = len + sizeof "[]:65535";

    if (!is_host(host, len) || port == 0)
        return NULL;
    address = hfi_calloc(1, sizeof *address);
    if (!address)
        return NULL;
    address->port = port;
    address->host = hfi_strndup(host, len);
    address->shown = hfi_malloc(size);
    if (!address->host || !address->shown) {
        hfi_address_free(address);
        return NULL;
    }
    snprintf(address->shown, size, strchr(address->host, ':') ? "[%s]:%u" : "%s:%u", address->host,
             (unsigned)port);
    return address;
}

struct hfi_address *hfi_address_copy(const struct hfi_address *address)
{
    struct hfi_address *copy = hfi_calloc(1, sizeof *copy);

    if (!copy)
        return NULL;
    copy->port = address->port;
    copy->host = address->host ? hfi_strdup(address->host) : NULL;
    copy->path = address->path ? hfi_strdup(address->path) : NULL;
    copy->shown = hfi_strdup(address->shown);
    if ((address->host && !copy->host) || (address->path && !copy->path) || !copy->shown) {
        hfi_address_free(copy);
        return NULL;
    }
    return copy;
}

void hfi_address_free(struct hfi_address *address)
{
    if (!address)
        return;
    hfi_free(address->host);
    hfi_free(address->path);
    hfi_free(address->shown);
    hfi_free(address);
}

bool hfi_address_is(const struct hfi_address *address, const char *host, size_t len, uint16_t port)
{
    return address->host && address->port == port && strlen(address->host) == len &&
           memcmp(address->host, host, len) == 0;
}

bool hfi_address_same(const struct hfi_address *a, const struct hfi_address *b)
{
    return a->host && b->host && hfi_address_is(a, b->host, strlen(b->host), b->port);
}

/* A number that ends at `to`; false: it is none, or too large. */
static bool number(const char *from, const char *to, uint64_t most, uint64_t *ret_value)
{
    char digits[8] = { 0 };

    if (to <= from || (size_t)(to - from) >= sizeof digits)
        return false;
    memcpy(digits, from, (size_t)(to - from));
    return hfi_parse_u64(digits, 0, most, ret_value) == NULL;
}

bool hfi_redirect_parse(const struct hfi_reply *reply, struct hfi_redirect *ret_redirect)
{
    const char *end = reply->text + reply->len;
    const char *slot = memchr(reply->text, ' ', reply->len);
    const char *host = slot ? memchr(slot + 1, ' ', (size_t)(end - slot - 1)) : NULL;
    const char *colon = NULL;
    uint64_t slot_number, port;

    if (!host)
        return false;
    for (const char *c = host + 1; c < end; c++)
        if (*c == ':')
            colon = c; /* the last one: an IPv6 address has others, and no brackets */
    if (!colon || !number(slot + 1, host, SLOT_LAST, &slot_number) ||
        !number(colon + 1, end, UINT16_MAX, &port) || port == 0)
        return false;
    ret_redirect->slot = (uint32_t)slot_number;
    ret_redirect->port = (uint16_t)port;
    ret_redirect->host = host + 1;
    ret_redirect->len = (size_t)(colon - host - 1);
    if (ret_redirect->len == 1 && host[1] == '?')
        ret_redirect->len = 0; /* the server does not know its own address */
    return true;
}
