/* SPDX-License-Identifier: MIT */
/*
 * The calls of ZooKeeper's library that the engine uses, with the fuzzer as the server behind it: which answers come, in order, with which
 * codes, names and numbers; connections that break, sessions that end, watches that fire. The protocol is the library's own business.
 */
#ifndef HOLDFAST_FUZZ_FAKE_ZOOKEEPER_H
#define HOLDFAST_FUZZ_FAKE_ZOOKEEPER_H

#include "fuzz.h"

void fake_zookeeper_begin(struct fuzz_input answers);

#endif
