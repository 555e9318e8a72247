/* SPDX-License-Identifier: MIT */
/* One function per measurement, each in the file of that name. */
#ifndef BENCH_MEASURES_H
#define BENCH_MEASURES_H

#include "bench.h"

void measure_pair(struct bench *bench);
void measure_handoff(struct bench *bench);
void measure_passes(struct bench *bench);
void measure_quiet(struct bench *bench);
void measure_many(struct bench *bench);
void measure_command(struct bench *bench);
void measure_async(struct bench *bench);

/* On a redis-server of our own. */
void measure_redis_pair(struct bench *bench);
void measure_redis_parallel(struct bench *bench);
void measure_redis_passes(struct bench *bench);
void measure_redlock_pair(struct bench *bench);
void measure_redlock_queue(struct bench *bench);
void measure_redis_queue(struct bench *bench);
void measure_redis_groups(struct bench *bench); /* in redis_queue.c */
void measure_redis_semaphore(struct bench *bench);
void measure_redis_command(struct bench *bench); /* in command.c */
void measure_redis_quiet(struct bench *bench);   /* in quiet.c */
void measure_redis_renew(struct bench *bench);

/* On a memcached of our own. */
void measure_memcached_pair(struct bench *bench);
void measure_memcached_queue(struct bench *bench);
/* On an etcd of our own. */
void measure_etcd_pair(struct bench *bench);
void measure_etcd_queue(struct bench *bench);
/* On a ZooKeeper server of our own. */
void measure_zk_pair(struct bench *bench);
void measure_zk_queue(struct bench *bench);
/* On a database server of our own. */
void measure_postgres_pair(struct bench *bench); /* in sql_pair.c */
void measure_postgres_queue(struct bench *bench);
void measure_postgres_wake(struct bench *bench);
void measure_mariadb_pair(struct bench *bench);
void measure_mariadb_queue(struct bench *bench);
void measure_mariadb_wake(struct bench *bench);
/* Primitives on cells, and the cost of deadlock detection. */
void measure_prims_counter(struct bench *bench); /* in prims_redis.c */
void measure_prims_limit(struct bench *bench);
void measure_prims_embedded(struct bench *bench);
void measure_prims_deadlock(struct bench *bench);
/* Lingering leases. */
void measure_redis_linger(struct bench *bench); /* in linger.c */
void measure_redlock_linger(struct bench *bench);
void measure_postgres_linger(struct bench *bench);
void measure_mariadb_linger(struct bench *bench);
/* Curves instead of ratios: --growth. */
void measure_growth_embedded(struct bench *bench); /* in growth.c */
void measure_growth_redis(struct bench *bench);
void measure_growth_postgres(struct bench *bench);

#endif
