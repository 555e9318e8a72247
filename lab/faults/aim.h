/* SPDX-License-Identifier: MIT */
/* A store's URL, and the same through a proxy of ours; see aim.c. */
#ifndef FAULTS_AIM_H
#define FAULTS_AIM_H

#include "shared.h"

#include <netinet/in.h>

/* The one server of the URL, by its address; and in `before` and `after` what stands before and behind HOST:PORT. NULL: fine; else why no
 * proxy can stand before it. */
struct aim {
    struct sockaddr_in server;
    char before[URL_ROOM], after[URL_ROOM];
};
const char *aim_at(const char *url, struct aim *ret_aim);
/* The URL with our proxy in place of the server. */
void aim_through(const struct aim *aim, unsigned port, char ret_url[URL_ROOM]);

#endif
