// SPDX-License-Identifier: MIT
'use strict';

/** Stores: opening, locks, several names, inspection. */
const native = require('./native.js');
const { Core } = require('./call.js');
const { makeError, invalid, cancelled, status: STATUS } = require('./errors.js');
const { Lease, asText, asyncDispose } = require('./lease.js');
const options = require('./options.js');
const primitives = require('./primitives.js');
const { stats } = require('./stats.js');

const [MUTEX, SHARED, EXCLUSIVE, SEMAPHORE, UPGRADEABLE] = [0, 1, 2, 3, 4];
const LEVELS = ['ok', 'warning', 'bad'];
const STRENGTHS = ['none', 'whileDurable', 'strict'];
const OPEN_FLAGS = { existing: 1, once: 2, noWait: 4 };

/** A granted lease that nobody waits for any more: it is given back before the caller hears of the end. */
function giveBack(core, call, holding) {
  const end = () => call.reject(cancelled(call.signal));
  new Lease(holding).release().then(end, end);
}

function wrap(holding, Kind, reentrant) {
  if (!reentrant) return new Kind(holding);
  holding.lease ??= new Kind(holding);
  return holding.lease;
}

/** The context of a call that acquires: what the lease becomes, and what busy and done mean. */
class Grant {
  constructor(name, Kind, orNull, reentrant, onDone) {
    this.name = name;
    this.Kind = Kind;
    this.orNull = orNull;
    this.reentrant = reentrant;
    this.onDone = onDone;
    this.silent = false;
  }
}

/** A lease of which the library has no events: it must be watched. */
function silentGrant(name, Kind) {
  const grant = new Grant(name, Kind, false, false, undefined);
  grant.silent = true;
  return grant;
}

function settleGrant(core, call, status, value, code, text) {
  const { name, Kind, orNull, reentrant } = call.context;
  if (status === STATUS.OK) {
    const holding = core.granted(core.out[1], core.out[0], name);
    if (call.context.silent) holding.silent = true;
    return call.signal?.aborted ? giveBack(core, call, holding) : call.resolve(wrap(holding, Kind, reentrant));
  }
  if (core.early.size > 0) core.early.delete(call.index); // it was not granted
  if (status === STATUS.BUSY && orNull) return call.resolve(null);
  if (status === STATUS.DONE) return call.resolve(call.context.onDone(value));
  return core.fail(call, status, code, text);
}

function settleAll(core, call, status, value, code, text) {
  if (status !== STATUS.OK) {
    if (status === STATUS.BUSY && call.context.orNull) return call.resolve(null);
    return core.fail(call, status, code, text);
  }
  const leases = call.context.requests.map(
    (request, i) => wrap(core.granted(value[2 * i], value[2 * i + 1], request[0]), Lease, request[4] & 2),
  );
  if (!call.signal?.aborted) return call.resolve(leases);
  const end = () => call.reject(cancelled(call.signal));
  return Promise.allSettled(leases.map((lease) => lease.release())).then(end);
}

function settleAny(core, call, status, value, code, text) {
  if (status !== STATUS.OK) {
    if (status === STATUS.BUSY && call.context.orNull) return call.resolve(null);
    return core.fail(call, status, code, text);
  }
  const request = call.context.requests[value];
  const holding = core.granted(core.out[1], core.out[0], request[0]);
  if (call.signal?.aborted) return giveBack(core, call, holding);
  return call.resolve({ index: value, lease: wrap(holding, Lease, request[4] & 2) });
}

function withName(item) {
  return { ...item, name: asText(item.nameBytes) };
}

class Store {
  #core;

  constructor(core) {
    if (!(core instanceof Core)) throw new TypeError('a store is made by open()');
    this.#core = core;
  }

  // ---- locks

  lock(name, opts) {
    return this._acquire(name, MUTEX, opts, false);
  }

  tryLock(name, opts) {
    return this._acquire(name, MUTEX, opts, true);
  }

  shared(name, opts) {
    return this._acquire(name, SHARED, opts, false);
  }

  tryShared(name, opts) {
    return this._acquire(name, SHARED, opts, true);
  }

  exclusive(name, opts) {
    return this._acquire(name, EXCLUSIVE, opts, false);
  }

  tryExclusive(name, opts) {
    return this._acquire(name, EXCLUSIVE, opts, true);
  }

  upgradeable(name, opts) {
    return this._acquire(name, UPGRADEABLE, opts, false);
  }

  tryUpgradeable(name, opts) {
    return this._acquire(name, UPGRADEABLE, opts, true);
  }

  semaphore(name, capacity, opts) {
    return this._acquire(name, SEMAPHORE, { ...opts, capacity }, false);
  }

  trySemaphore(name, capacity, opts) {
    return this._acquire(name, SEMAPHORE, { ...opts, capacity }, true);
  }

  /** Run `work(lease)` under the lock; it is released whatever happens. */
  async withLock(name, opts, work) {
    if (typeof opts === 'function') return this.withLock(name, undefined, opts);
    if (typeof work !== 'function') throw invalid('work: must be a function');
    const lease = await this.lock(name, opts);
    let result;
    try {
      result = await work(lease);
    } catch (error) {
      await lease.release().catch(() => {}); // the first error counts
      throw error;
    }
    await lease[asyncDispose]();
    return result;
  }

  _acquire(name, kind, opts, tries) {
    const core = this.#core;
    try {
      core.check();
      if (opts === undefined && !core.embedded) {
        const index = native.acquire(core.handle, name, kind, 0, 0, 0, tries ? 0 : options.FOREVER, 0, undefined);
        return core.begun(index, settleGrant, undefined, new Grant(name, Lease, tries, false, undefined));
      }
      const signal = options.signalOf(opts);
      if (signal?.aborted) throw cancelled(signal);
      const request = options.request(name, kind, opts, tries ? 0 : options.FOREVER);
      if (tries) request[5] = 0;
      if (core.embedded && !(request[4] & 2)) {
        const index = native.directAcquire(
          core.handle, request[0], request[1], request[2], request[3], request[4], 0, request[6], request[7],
        );
        if (index >= 0) return Promise.resolve(new Lease(core.granted(index, core.out[0], name)));
        if (index === -STATUS.BUSY && tries) return Promise.resolve(null);
        if (index !== -STATUS.BUSY || request[5] === 0) throw core.error();
      }
      return this._begin(native.acquire, request, [], { signal, orNull: tries });
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Begin something that gives a lease of `request`; `more` arguments follow it. */
  _begin(begin, request, more, { signal, orNull = false, Kind = Lease, onDone = undefined }) {
    const context = new Grant(request[0], Kind, orNull, (request[4] & 2) !== 0, onDone);
    return this.#core.call(begin, more.length > 0 ? [...request, ...more] : request, settleGrant, signal, context);
  }

  acquireAll(requests, opts) {
    return this.#several(native.acquireAll, requests, opts, settleAll, false);
  }

  tryAcquireAll(requests, opts) {
    return this.#several(native.acquireAll, requests, opts, settleAll, true);
  }

  acquireAny(requests, opts) {
    return this.#several(native.acquireAny, requests, opts, settleAny, false);
  }

  tryAcquireAny(requests, opts) {
    return this.#several(native.acquireAny, requests, opts, settleAny, true);
  }

  /** Requests are names, or objects with `name`, `kind` and the options of one; `opts` are for all of them. */
  async #several(begin, requests, opts, settle, orNull) {
    const { signal: _, ...common } = opts ?? {};
    if (!Array.isArray(requests)) throw invalid('requests: must be a list');
    const packed = requests.map((item) => {
      const own = typeof item === 'string' || item instanceof Uint8Array ? { name: item } : item;
      const request = options.request(
        own.name, options.kind(own.kind ?? 'mutex'), { ...common, ...own, wait: common.wait }, options.FOREVER,
      );
      if (orNull) request[5] = 0;
      return request;
    });
    return this.#core.call(begin, [packed], settle, options.signalOf(opts), { requests: packed, orNull });
  }

  async releaseAll(leases) {
    const results = await Promise.allSettled(leases.map((lease) => lease.release()));
    const failed = results.find((result) => result.status === 'rejected');
    if (failed) throw failed.reason;
  }

  async adopt(name, text, { ttl, renew = false } = {}) {
    const args = [name, text, options.duration(ttl, 'ttl'), renew ? 1 : 0];
    return this.#core.call(native.adopt, args, settleGrant, undefined, silentGrant(name, Lease));
  }

  // ---- administration

  async resize(name, capacity) {
    await this.#core.call(native.resize, [name, options.count(capacity, 'capacity')]);
  }

  async ask(name, text = undefined) {
    await this.#core.call(native.ask, [name, text]);
  }

  async breakLease(name, token) {
    await this.#core.call(native.break, [name, options.token(token)]);
  }

  /** One name, or all that match { pattern }; without either, all. */
  async inspect(what = {}) {
    const exact = typeof what === 'string' || what instanceof Uint8Array;
    const view = await this.#core.call(native.inspect, [exact ? what : what.pattern, exact ? 0 : 1]);
    for (const entry of view.entries) {
      entry.name = asText(entry.nameBytes);
      entry.kind = options.KINDS[entry.kind];
      for (const waiter of entry.waiters) waiter.kind = options.KINDS[waiter.kind];
    }
    return view;
  }

  /** Wait for a change of the store since `since` (undefined: since now). */
  async wait(since = 0n, { wait, signal } = {}) {
    return this.#core.call(native.wait, [options.version(since, 'since'), options.waiting(wait)], undefined, options.signalOf({ signal }));
  }

  async deadlocks() {
    const cycles = await this.#core.call(native.deadlocks, []);
    return cycles.map((cycle) => cycle.map(withName));
  }

  async check() {
    const findings = await this.#core.call(native.check, []);
    return findings.map((finding) => ({ ...finding, level: LEVELS[finding.level] }));
  }

  info() {
    this.#core.check();
    const info = native.info(this.#core.handle);
    if (!info) throw makeError(STATUS.INVALID, 'store: it is closed');
    return {
      engine: info.engine,
      location: info.location,
      caps: options.names(info.caps),
      tokens: STRENGTHS[info.tokens],
      defaultTtl: info.defaultTtl,
      minTtl: info.minTtl,
      maxTtl: info.maxTtl,
      lacks: info.lacks.map((lack) => ({ caps: options.names(lack.caps), why: lack.why })),
      source: info.source,
    };
  }

  /** What this process has done with this store, as numbers. */
  stats() {
    this.#core.check();
    const found = stats(this.#core.handle);
    if (!found) throw makeError(STATUS.INVALID, 'store: it is closed');
    return found;
  }

  // ---- what is built on leases and cells

  cell(name) {
    return new primitives.Cell(this.#core, name);
  }

  async commit(items) {
    return primitives.commit(this.#core, items);
  }

  async leaseCell(name) {
    return primitives.leaseCell(this.#core, name);
  }

  counter(name) {
    return new primitives.Counter(this.#core, name);
  }

  guard(name) {
    return new primitives.Guard(this.#core, name);
  }

  limit(name, rule) {
    return new primitives.Limit(this.#core, name, rule);
  }

  latch(name) {
    return new primitives.Latch(this.#core, this, name);
  }

  barrier(name, parties) {
    return new primitives.Barrier(this.#core, name, parties);
  }

  election(name) {
    return new primitives.Election(this.#core, this, name);
  }

  group(name) {
    return new primitives.Group(this.#core, this, name);
  }

  once(name) {
    return new primitives.Once(this.#core, this, name);
  }

  /** For the tests: what the addon keeps for calls and leases. */
  _used() {
    return native.used(this.#core.handle);
  }

  // ---- the end

  get closed() {
    return this.#core.closed;
  }

  async close({ release = false } = {}) {
    await this.#core.close(release);
  }

  async [asyncDispose]() {
    await this.#core.close(true);
  }
}

/** Open the store at `url`, or of that profile (undefined: the one that the command uses without -S). */
async function open(url = undefined, given = undefined) {
  const opts = given ?? {};
  if (typeof opts !== 'object') throw invalid('options: must be an object');
  for (const key of Object.keys(opts)) {
    if (!(key in OPEN_FLAGS) && !['label', 'wait', 'signal'].includes(key)) throw invalid(`options: there is no option '${key}'`);
  }
  const signal = options.signalOf(opts);
  if (url !== undefined && url !== null && typeof url !== 'string') throw invalid('url: must be a string');
  if (opts.label !== undefined && typeof opts.label !== 'string') throw invalid('label: must be a string');
  if (url?.includes('\0') || opts.label?.includes('\0')) throw invalid('url, label: there is a NUL in it');
  if (signal?.aborted) throw cancelled(signal);
  let flags = 0;
  for (const name of Object.keys(OPEN_FLAGS)) flags |= opts[name] ? OPEN_FLAGS[name] : 0;
  const core = new Core();
  await core.open(url, opts.label, options.duration(opts.wait, 'wait'), flags);
  if (signal?.aborted) {
    await core.close(true);
    throw cancelled(signal);
  }
  return new Store(core);
}

/** A list of engines; `modes` are the sets of promises among which its URL chooses. */
function engines() {
  const make = (mode) => ({
    ...mode,
    schemes: mode.schemes.split(' '),
    caps: mode.available ? options.names(mode.caps) : undefined,
    tokens: mode.available ? STRENGTHS[mode.tokens] : undefined,
    lacks: mode.lacks?.map((lack) => ({ caps: options.names(lack.caps), why: lack.why })),
  });
  return native.engines().map((modes) => ({ ...make(modes[0]), modes: modes.map(make) }));
}

/** An identity for `scope`: no other one of this process is the same. */
let scopes = BigInt(process.pid) << 32n;
function newScope() {
  scopes += 1n;
  return (BigInt(require('node:worker_threads').threadId) << 54n) + scopes;
}

module.exports = { Store, open, engines, newScope, _settleGrant: settleGrant };
primitives.use(settleGrant, silentGrant);
