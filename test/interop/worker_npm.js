// SPDX-License-Identifier: MIT
// npm's redlock or redis-semaphore as a worker: worker_npm.js KIND PORT[,PORT...], where KIND is one of them. The commands are those of worker.c. NODE_PATH says where the packages are.
'use strict';
const fs = require('fs');
const readline = require('readline');
const Redis = require('ioredis');

const [kind, ports] = process.argv.slice(2);
const many = ports.includes(',');
// A node that is gone must answer so at once: it has no vote.
const clients = ports.split(',').map((port) => new Redis(Number(port), '127.0.0.1',
    many ? { enableOfflineQueue: false, maxRetriesPerRequest: 0, retryStrategy: () => 200 } : {}));
const client = clients[0];
clients.forEach((one) => one.on('error', () => {}));
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Each gives a function that releases what it acquired.
async function acquireRedlock(name, waitMs, ttlMs) {
    const Redlock = require('redlock');
    const options = { retryCount: waitMs > 0 ? Math.ceil(waitMs / 5) : 0, retryDelay: 5, retryJitter: 3 };
    let lock = await new Redlock(clients, options).lock(name, Math.abs(ttlMs));
    extend = async (ms) => { lock = await lock.extend(ms); };
    return () => lock.unlock();
}

// Its Mutex puts "mutex:" before the name: the driver gives names that begin with it.
async function acquireSemaphore(name, waitMs, ttlMs) {
    const { Mutex } = require('redis-semaphore');
    const lost = {};
    const mutex = new Mutex(client, name.replace(/^mutex:/, ''), {
        lockTimeout: Math.abs(ttlMs),
        acquireTimeout: waitMs || 1,
        acquireAttemptsLimit: waitMs > 0 ? Number.POSITIVE_INFINITY : 1,
        retryInterval: 5,
        refreshInterval: ttlMs < 0 ? 0 : Math.abs(ttlMs) / 3,
        onLockLost: (error) => { lost.error = error; },
    });
    await mutex.acquire();
    return async () => {
        // release() answers nothing: ask who owns it before.
        const owner = await client.get(name);
        await mutex.release();
        if (lost.error || owner !== mutex.identifier) throw new Error('lost');
    };
}

const acquire = kind === 'redlock' ? acquireRedlock : acquireSemaphore;
let release;
let extend;

async function raiseNumber(path) {
    const number = Number(fs.readFileSync(path, 'utf8'));
    await pause(1);
    fs.writeFileSync(path, `${number + 1}\n`);
}

async function serve(line) {
    const [word, name, second, third] = line.trim().split(/\s+/);
    if (word === 'acquire') {
        try {
            release = await acquire(name, Number(second), Number(third));
            return 'OK';
        } catch (error) {
            return Number(second) > 0 ? 'TIMEOUT' : 'BUSY';
        }
    }
    if (word === 'release') {
        try {
            await release();
            return 'OK';
        } catch (error) {
            return 'LOST';
        }
    }
    if (word === 'extend') {
        if (!extend) return 'cannot';
        await extend(Number(name));
        return 'OK';
    }
    for (let i = 0; i < Number(third); i++) {
        const let_go = await acquire(name, 120000, 10000);
        await raiseNumber(second);
        await let_go().catch((error) => { if (word !== 'storm') throw error; });
    }
    return 'OK';
}

async function main() {
    await Promise.any(clients.map((one) => (one.status === 'ready' ? null : new Promise((up) => one.once('ready', up)))));
    console.log('ready');
    for await (const line of readline.createInterface({ input: process.stdin })) {
        console.log(await serve(line).catch((error) => `ERROR ${error.message}`));
    }
    clients.forEach((one) => one.disconnect());
}

main();
