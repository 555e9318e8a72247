// SPDX-License-Identifier: MIT
// Redisson's RLock as a worker: Worker PORT. The commands are those of ../worker.c.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

public class Worker {
    private final RedissonClient client;
    private RLock lock;

    Worker(String port) {
        Config config = new Config();
        config.setThreads(2).setNettyThreads(2);
        config.useSingleServer()
                .setAddress("redis://127.0.0.1:" + port)
                .setConnectionMinimumIdleSize(1)
                .setConnectionPoolSize(4)
                .setSubscriptionConnectionMinimumIdleSize(1)
                .setSubscriptionConnectionPoolSize(2);
        client = Redisson.create(config);
    }

    public static void main(String[] args) throws Exception {
        Worker worker = new Worker(args[0]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(worker.serve(line.trim().split("\\s+")));
            System.out.flush();
        }
        worker.client.shutdown();
    }

    private String serve(String[] words) throws Exception {
        switch (words[0]) {
            case "acquire":
                lock = client.getLock(words[1]);
                long waitMs = Long.parseLong(words[2]);
                // Its watchdog has one time for all locks: with a lease time of its own none renews.
                boolean got = lock.tryLock(waitMs, Math.abs(Long.parseLong(words[3])), TimeUnit.MILLISECONDS);
                return got ? "OK" : waitMs > 0 ? "TIMEOUT" : "BUSY";
            case "again":
                lock = client.getLock(words[1]);
                return lock.tryLock(0, Long.parseLong(words[2]), TimeUnit.MILLISECONDS) ? "OK" : "BUSY";
            case "release":
                return release(lock);
            case "holds":
                return Integer.toString(lock.getHoldCount());
            default:
                return hammer(words[1], Path.of(words[2]), Integer.parseInt(words[3]));
        }
    }

    private static String release(RLock held) {
        try {
            held.unlock();
            return "OK";
        } catch (IllegalMonitorStateException notOurs) {
            return "LOST";
        }
    }

    private String hammer(String name, Path path, int count) throws Exception {
        RLock held = client.getLock(name);
        for (int i = 0; i < count; i++) {
            // Taken twice: the count in the hash goes to 2 and back, and others stay out.
            if (!held.tryLock(120, 10, TimeUnit.SECONDS) || !held.tryLock(120, 10, TimeUnit.SECONDS)) {
                return "TIMEOUT";
            }
            long number = Long.parseLong(Files.readString(path).trim());
            held.unlock();
            Thread.sleep(1);
            Files.writeString(path, (number + 1) + "\n");
            held.unlock();
        }
        return "OK";
    }
}
