// SPDX-License-Identifier: MIT
// node-redlock as a peer: SERVER is one host:port, or five with commas between. Orders and answers: README.md.
//     node_redlock.js node-redlock SERVER 1
'use strict';
const readline = require('readline');
const Redis = require('ioredis');
const Redlock = require('redlock');

const NAME = 'node-name';
const TTL_MS = 30000;
const clients = process.argv[3].split(',').map((server) => new Redis(`redis://${server}`));
const now = () => Number(process.hrtime.bigint()) / 1e9;

function manager(delayMs) {
    const options = delayMs > 0 ? { retryDelay: delayMs, retryJitter: 0 } : {};
    const redlock = new Redlock(clients, { retryCount: -1, ...options });
    redlock.on('clientError', () => {}); // it says so of every try that finds it busy
    return redlock;
}

async function pair(redlock, seconds) {
    const start = now();
    let count = 0;
    while (now() - start < seconds) {
        const lock = await redlock.lock(NAME, TTL_MS);
        await lock.unlock();
        count++;
    }
    return { took: now() - start, counts: [count], waits: [] };
}

async function queue(redlock, seconds, holdS) {
    const end = now() + seconds;
    const waits = [], at = [];
    while (now() < end) {
        const since = now();
        const lock = await redlock.lock(NAME, TTL_MS);
        const got = now();
        if (got < end) {
            waits.push(Math.round((got - since) * 1e6));
            at.push(Math.round((performance.timeOrigin + performance.now()) * 1000));
        }
        while (now() < got + holdS);
        await lock.unlock().catch(() => {});
    }
    return { took: seconds, counts: [waits.length], waits, at };
}

async function main() {
    await Promise.all(clients.map((client) => client.ping()));
    console.log('ready');
    for await (const line of readline.createInterface({ input: process.stdin })) {
        const [order, ...words] = line.split(' ');
        const numbers = words.map(Number);
        const answer = order === 'pair' ? await pair(manager(0), numbers[0])
            : await queue(manager(numbers[2]), numbers[0], numbers[1] / 1e6);
        console.log(JSON.stringify(answer));
    }
    process.exit(0);
}

main();
