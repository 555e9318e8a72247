/* SPDX-License-Identifier: MIT */
/*
 * Headers that two readers may understand in two ways. libmicrohttpd takes the first Content-Length of
 * several, and Transfer-Encoding before Content-Length; a proxy in front of us may choose otherwise,
 * and then a part of one client's body is the next request of another. So they are refused, and the
 * connection ends.
 */
#include "serve.h"

#include <string.h>
#include <strings.h>

struct found {
    unsigned hosts, lengths, encodings;
    bool not_chunked, blank;
};

static enum MHD_Result look(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct found *found = arg;

    (void)kind;
    found->hosts += strcasecmp(name, "Host") == 0;
    found->lengths += strcasecmp(name, "Content-Length") == 0;
    if (strcasecmp(name, "Transfer-Encoding") == 0) {
        found->encodings++;
        found->not_chunked |= !value || strcasecmp(value, "chunked") != 0;
    }
    found->blank |= strpbrk(name, " \t") != NULL;
    return MHD_YES;
}

const char *headers_wrong(const struct request *request)
{
    struct found found = { 0 };

    MHD_get_connection_values(request->connection, MHD_HEADER_KIND, look, &found);
    if (found.hosts > 1)
        return "Host: there is more than one";
    if (found.lengths > 1)
        return "Content-Length: there is more than one";
    if (found.lengths > 0 && found.encodings > 0)
        return "Transfer-Encoding: not together with Content-Length";
    if (found.encodings > 1 || found.not_chunked)
        return "Transfer-Encoding: only chunked is known";
    return found.blank ? "a header has a blank in its name" : NULL;
}
