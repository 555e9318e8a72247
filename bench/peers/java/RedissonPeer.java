// SPDX-License-Identifier: MIT

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson's RLock ("redisson") and its fair lock ("redisson-fair"); SERVER is host:port. */
final class RedissonPeer implements Peer.Lock {
    private final RLock lock;

    private RedissonPeer(RLock lock) {
        this.lock = lock;
    }

    static List<Peer.Lock> open(String kind, String server, int tasks) {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + server);
        RedissonClient client = Redisson.create(config);
        List<Peer.Lock> locks = new ArrayList<>();
        for (int i = 0; i < tasks; i++) {
            locks.add(new RedissonPeer(kind.equals("redisson-fair") ? client.getFairLock("fair-name") : client.getLock("redisson-name")));
        }
        return locks;
    }

    @Override
    public void acquire() {
        lock.lock(30, TimeUnit.SECONDS);
    }

    @Override
    public void release() {
        lock.unlock();
    }
}
