// SPDX-License-Identifier: MIT

import java.util.ArrayList;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator's InterProcessMutex; SERVER is host:port. Each thread has a mutex, all of a process share a connection. */
final class CuratorPeer implements Peer.Lock {
    private final InterProcessMutex mutex;

    private CuratorPeer(InterProcessMutex mutex) {
        this.mutex = mutex;
    }

    static List<Peer.Lock> open(String server, int tasks) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(server, new ExponentialBackoffRetry(100, 3));
        List<Peer.Lock> locks = new ArrayList<>();
        client.start();
        client.blockUntilConnected();
        for (int i = 0; i < tasks; i++) {
            locks.add(new CuratorPeer(new InterProcessMutex(client, "/curator-name")));
        }
        return locks;
    }

    @Override
    public void acquire() throws Exception {
        mutex.acquire();
    }

    @Override
    public void release() throws Exception {
        mutex.release();
    }
}
