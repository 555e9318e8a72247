/* SPDX-License-Identifier: MIT */
/* The servers of the URL, as addresses. Everything here blocks, until until_ms at the latest. */
#ifndef ZK_SERVERS_H
#define ZK_SERVERS_H

#include "engine/zookeeper/conf.h"
#include "util/resolve.h"

struct zk_servers {
    char *text; /* for the library: "address:port,address:port" */
    struct hfi_place *places;
    size_t count;
};

/* Free *ret_servers with zk_servers_done(). */
hf_status zk_servers_resolve(const struct zk_conf *conf, int64_t until_ms,
                             struct zk_servers *ret_servers, hf_error *err);
void zk_servers_done(struct zk_servers *servers); /* zeroed is fine */
/* Do all of them refuse a connection? true: err says so, of the first. */
bool zk_servers_refuse(const struct zk_servers *servers, int64_t until_ms, hf_error *err);
/* A server's answer to "srvr". false: none. */
bool zk_server_ask(const struct hfi_address *host, int64_t until_ms, char *ret_answer, size_t size);

#endif
