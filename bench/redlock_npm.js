// SPDX-License-Identifier: MIT
// node-redlock as redlock-queue measures ours: 16 processes want one name on the servers at PORTS (with commas
// between) and hold it for 1 ms.   redlock_npm.js PORTS SECONDS RETRY_MS JITTER_MS
// NODE_PATH says where redlock and ioredis are. Prints one line of JSON.
'use strict';
const { fork } = require('child_process');
const Redis = require('ioredis');

const WORKERS = 16;
const HOLD_NS = 1000000n;
const TTL_MS = 30000;
const WARM_MS = 1000;
const [ports, seconds, retryMs, jitterMs] = process.argv.slice(2);
const connect = () => ports.split(',').map((port) => new Redis(Number(port), '127.0.0.1'));

async function work() {
    const Redlock = require('redlock');
    const redlock = new Redlock(connect(), { retryCount: -1, retryDelay: Number(retryMs), retryJitter: Number(jitterMs) });
    let waits = [], times = [];
    let running = true;
    redlock.on('clientError', () => {}); // it says so of every try that finds it busy
    process.on('message', (word) => {
        if (word === 'count') waits = [], times = [];
        else if (word === 'stop') running = false;
    });
    process.send('ready');
    await new Promise((resolve) => process.once('message', resolve));
    while (running) {
        const since = process.hrtime.bigint();
        const lock = await redlock.lock('bench', TTL_MS);
        const got = process.hrtime.bigint();
        waits.push(Number(got - since) / 1000);
        times.push(Number(got)); // of a clock that all processes share
        while (process.hrtime.bigint() - got < HOLD_NS);
        await lock.unlock().catch(() => {});
        await new Promise(setImmediate); // else it would never hear that it should stop
    }
    process.send({ waits, times }, () => process.exit(0));
}

// Commands that clients sent: it does everything by scripts.
async function commands(servers) {
    let sum = 0;
    for (const server of servers)
        for (const match of (await server.info('commandstats')).matchAll(/cmdstat_(?:eval|evalsha|set):calls=(\d+)/g))
            if (!match[0].startsWith('cmdstat_set')) sum += Number(match[1]);
    return sum;
}

async function direct() {
    const servers = connect();
    const workers = Array.from({ length: WORKERS }, () => fork(__filename, process.argv.slice(2), { env: { ...process.env, WORKER: '1' } }));
    const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
    await Promise.all(workers.map((worker) => new Promise((resolve) => worker.once('message', resolve))));
    workers.forEach((worker) => worker.send('go'));
    await pause(WARM_MS);
    const before = await commands(servers);
    workers.forEach((worker) => worker.send('count'));
    const begun = Date.now();
    await pause(Number(seconds) * 1000);
    const after = await commands(servers);
    const took = (Date.now() - begun) / 1000;
    const results = Promise.all(workers.map((worker) => new Promise((resolve) => worker.once('message', resolve))));
    workers.forEach((worker) => worker.send('stop'));
    const got = await results;
    const each = got.map((result) => result.waits);
    const holders = got.flatMap((result, who) => result.times.map((at) => ({ at, who }))).sort((a, b) => a.at - b.at);
    const changes = holders.filter((holder, i) => i > 0 && holder.who !== holders[i - 1].who).length;
    const all = each.flat().sort((a, b) => a - b);
    const counts = each.map((waits) => waits.length);
    const sum = counts.reduce((a, b) => a + b, 0);
    const squares = counts.reduce((a, b) => a + b * b, 0);
    console.log(JSON.stringify({
        acquisitions_per_second: Math.round(sum / took),
        hand_offs_per_second: Math.round(changes / took), // to another process than before
        jain: Number((sum * sum / (WORKERS * squares)).toFixed(4)),
        p50_ms: Number((all[Math.floor(all.length / 2)] / 1000).toFixed(2)),
        p99_ms: Number((all[Math.floor(all.length * 0.99)] / 1000).toFixed(2)),
        commands_each: Number(((after - before) / sum).toFixed(2)),
    }));
    servers.forEach((server) => server.disconnect());
}

if (process.env.WORKER) work();
else direct();
