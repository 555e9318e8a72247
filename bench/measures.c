/* SPDX-License-Identifier: MIT */
/* The list of all measurements, in the order in which they run. */
#include "measures.h"

const struct measure measures[] = {
    { "embedded", "pair", "uncontended acquire+release, one thread", measure_pair },
    { "embedded", "handoff", "eight processes on one name, FIFO", measure_handoff },
    { "embedded", "passes", "sixteen threads of one process on one name", measure_passes },
    { "embedded", "quiet", "what a waiting process does while it waits", measure_quiet },
    { "embedded", "many", "acquire+release while very many names are held", measure_many },
    { "embedded", "command", "holdfast run x -- true", measure_command },
    { "embedded", "async", "many acquisitions in flight from one thread", measure_async },
    { "redis", "redis-pair", "uncontended acquire+release on Redis, one thread",
      measure_redis_pair },
    { "redis", "redis-parallel", "64 names at once through one store handle",
      measure_redis_parallel },
    { "redis", "redis-queue", "processes that wait for one name, FIFO", measure_redis_queue },
    { "redis", "redis-quiet", "what a waiting process does while it waits", measure_redis_quiet },
    { "redis", "redis-renew", "very many leases kept alive by one process", measure_redis_renew },
    { "redis", "redis-passes", "sixteen threads of one process on one name", measure_redis_passes },
    { "redlock", "redlock-pair", "uncontended acquire+release on five nodes, one thread",
      measure_redlock_pair },
    { "redlock", "redlock-queue", "sixteen processes on one name on five nodes",
      measure_redlock_queue },
    { "memcached", "memcached-pair", "uncontended acquire+release on memcached, one thread",
      measure_memcached_pair },
    { "etcd", "etcd-pair", "uncontended acquire+release on etcd, one thread", measure_etcd_pair },
    { "etcd", "etcd-queue", "processes that wait for one name, FIFO", measure_etcd_queue },
    { "zookeeper", "zk-pair", "uncontended acquire+release on ZooKeeper, one thread",
      measure_zk_pair },
    { "zookeeper", "zk-queue", "processes that wait for one name, FIFO", measure_zk_queue },
    { 0 },
};
