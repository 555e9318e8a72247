// SPDX-License-Identifier: MIT

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;

/** Peers written in Java. Orders and answers: ../README.md.   Peer KIND SERVER TASKS */
public final class Peer {
    /** A lock of one thread. */
    interface Lock {
        void acquire() throws Exception;

        void release() throws Exception;
    }

    static double now() {
        return System.nanoTime() / 1e9;
    }

    /** What a task did: how long each acquisition took, and when it was. */
    static final class Done {
        final List<Long> waits = new ArrayList<>();
        final List<Long> at = new ArrayList<>();
    }

    static long wallMicros() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1000000 + now.getNano() / 1000;
    }

    static String answer(double took, List<Integer> counts, List<Long> waits, List<Long> at, List<Integer> tasks) {
        return "{\"took\":" + took + ",\"counts\":" + counts + ",\"waits\":" + waits + ",\"at\":" + at + ",\"task\":" + tasks + "}";
    }

    static String pair(Lock lock, double seconds) throws Exception {
        double start = now();
        int count = 0;
        while (now() - start < seconds) {
            lock.acquire();
            lock.release();
            count++;
        }
        return answer(now() - start, List.of(count), List.of(), List.of(), List.of());
    }

    static Done work(Lock lock, double end, double hold) throws Exception {
        Done done = new Done();
        for (double since = now(); since < end; since = now()) {
            lock.acquire();
            double got = now();
            if (got < end) {
                done.waits.add(Math.round((got - since) * 1e6));
                done.at.add(wallMicros());
            }
            while (now() < got + hold) {
            }
            lock.release();
        }
        return done;
    }

    static String queue(List<Lock> locks, double seconds, double hold) throws Exception {
        List<Done> each = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        double end = now() + seconds;
        for (Lock lock : locks) {
            Thread thread = new Thread(() -> {
                try {
                    Done done = work(lock, end, hold);
                    synchronized (each) {
                        each.add(done);
                    }
                } catch (Exception e) {
                    e.printStackTrace();
                    System.exit(70);
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        List<Integer> counts = new ArrayList<>();
        List<Integer> tasks = new ArrayList<>();
        List<Long> waits = new ArrayList<>();
        List<Long> at = new ArrayList<>();
        for (Done done : each) {
            done.at.forEach(when -> tasks.add(counts.size()));
            counts.add(done.waits.size());
            waits.addAll(done.waits);
            at.addAll(done.at);
        }
        return answer(seconds, counts, waits, at, tasks);
    }

    public static void main(String[] args) throws Exception {
        int tasks = Integer.parseInt(args[2]);
        List<Lock> locks = args[0].equals("curator") ? CuratorPeer.open(args[1], tasks) : RedissonPeer.open(args[0], args[1], tasks);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            double seconds = Double.parseDouble(words[1]);
            System.out.println(words[0].equals("pair") ? pair(locks.get(0), seconds)
                    : queue(locks, seconds, Double.parseDouble(words[2]) / 1e6));
        }
        System.exit(0);
    }
}
