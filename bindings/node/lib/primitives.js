// SPDX-License-Identifier: MIT
'use strict';

/** What is built on leases and cells: each class is one name in a store. */
const native = require('./native.js');
const { makeError, invalid, status: STATUS } = require('./errors.js');
const { Lease } = require('./lease.js');
const options = require('./options.js');

const ACTIONS = { leave: 0, write: 1, delete: 2 };
const ALGORITHMS = ['fixed', 'sliding', 'bucket'];

let settleGrant;
let silentGrant;

function waits({ wait, signal } = {}) {
  return [options.waiting(wait), options.signalOf({ signal })];
}

/** The ttl of the lease of a participant; 0: the default. */
function ttlOf({ ttl } = {}) {
  return options.duration(ttl, 'ttl');
}

/** Settle with null for the statuses that say "nothing there". */
function orNull(...statuses) {
  return (core, call, status, value, code, text) => {
    if (status === STATUS.OK) return call.resolve(value);
    return statuses.includes(status) ? call.resolve(null) : core.fail(call, status, code, text);
  };
}
const orMissing = orNull(STATUS.NOT_FOUND);

function cellOf(found) {
  return found && { bytes: found.bytes, version: found.version, ttl: found.ttl < 0 ? undefined : found.ttl };
}

// ---- cells

/** What the callback of update() has decided, as the addon expects it. */
function decided(answer) {
  if (answer === undefined) return [ACTIONS.leave];
  if (answer === null) return [ACTIONS.delete];
  if (typeof answer === 'string' || answer instanceof Uint8Array) return [ACTIONS.write, answer, 0];
  if (typeof answer !== 'object' || answer.bytes === undefined) throw invalid('update: the callback must return bytes, null or undefined');
  return [ACTIONS.write, answer.bytes, options.duration(answer.ttl, 'ttl')];
}

class Cell {
  constructor(core, name) {
    this._core = core;
    this.name = name;
  }

  async get() {
    return cellOf(await this._core.call(native.cellGet, [this.name], orMissing));
  }

  async set(bytes, { ttl } = {}) {
    return this._core.call(native.cellSet, [this.name, bytes, options.duration(ttl, 'ttl'), 0n]);
  }

  async swap(version, bytes, { ttl } = {}) {
    const args = [this.name, bytes, options.duration(ttl, 'ttl'), options.version(version, 'version')];
    return this._core.call(native.cellSwap, args, orNull(STATUS.CHANGED));
  }

  async delete(version) {
    const settle = (core, call, status, value, code, text) => {
      if (status === STATUS.OK || status === STATUS.CHANGED) return call.resolve(status === STATUS.OK);
      return core.fail(call, status, code, text);
    };
    return this._core.call(native.cellDelete, [this.name, options.version(version, 'version')], settle);
  }

  /** Calls `decide(bytes or null, version)`, perhaps several times; only its last answer counts. */
  async update(decide, opts) {
    const [wait, signal] = waits(opts);
    let thrown;
    const run = (bytes, version) => {
      try {
        return decided(decide(bytes, version));
      } catch (error) {
        thrown = { error };
        return []; // the addon ends the update
      }
    };
    try {
      return await this._core.call(native.cellUpdate, [this.name, run, wait], undefined, signal);
    } catch (error) {
      throw thrown ? thrown.error : error;
    }
  }

  async wait(version, opts) {
    const [wait, signal] = waits(opts);
    return this._core.call(native.cellWait, [this.name, options.version(version, 'version'), wait], undefined, signal);
  }

  /** Each state that is seen: first the present one, then after each change. null: there is no cell. */
  async *changes({ signal } = {}) {
    let found = await this.get();
    for (;;) {
      yield found;
      const version = found ? found.version : 0n;
      let next = await this.wait(version, { signal });
      do {
        found = await this.get();
        // Deleted or written again meanwhile: what is there now is what counts.
        next = found ? found.version : 0n;
      } while (next === version && (await this.wait(version, { signal })) !== undefined);
    }
  }
}

async function commit(core, items) {
  if (!Array.isArray(items)) throw invalid('items: must be a list');
  const packed = items.map((item) => {
    const action = ACTIONS[item.action ?? (item.bytes === undefined ? 'leave' : 'write')];
    if (action === undefined) throw invalid('action: must be write, delete or leave');
    const version = item.version === undefined ? undefined : options.version(item.version, 'version');
    return [item.name, version, action, item.bytes, options.duration(item.ttl, 'ttl')];
  });
  const settle = (_, call, status, value, code, text) => {
    if (status === STATUS.OK) return call.resolve(value);
    const error = makeError(status, text, code);
    if (status === STATUS.CHANGED) [error.index, error.version] = value;
    return call.reject(error);
  };
  return core.call(native.commit, [packed], settle);
}

async function leaseCell(core, name) {
  const found = cellOf(await core.call(native.leaseCellGet, [name], orMissing));
  return found && { bytes: found.bytes, version: found.version };
}

// ---- counters and guards

class Counter {
  constructor(core, name) {
    this._core = core;
    this.name = name;
  }

  async add(delta = 1n) {
    return this._core.call(native.counterAdd, [this.name, options.big(delta, 'delta')]);
  }

  async get() {
    return this._core.call(native.counterGet, [this.name]);
  }

  async set(value) {
    await this._core.call(native.counterSet, [this.name, options.big(value, 'value')]);
  }

  /** { swapped, value }: `value` is the present one. */
  async swap(expected, value) {
    const settle = (core, call, status, current, code, text) => {
      const known = status === STATUS.OK || status === STATUS.CHANGED;
      return known ? call.resolve({ swapped: status === STATUS.OK, value: current }) : core.fail(call, status, code, text);
    };
    return this._core.call(native.counterSwap, [this.name, options.big(expected, 'expected'), options.big(value, 'value')], settle);
  }

  async delete() {
    await this._core.call(native.counterDelete, [this.name]);
  }
}

class Guard {
  constructor(core, name) {
    this._core = core;
    this.name = name;
  }

  /** What the last write left; null: nothing was written yet. `by`: a lease or its token. */
  async claim(by) {
    return (await this._core.call(native.guardClaim, [this.name, fenceOf(by)])) ?? null;
  }

  async set(by, bytes) {
    await this._core.call(native.guardSet, [this.name, fenceOf(by), bytes]);
  }
}

/** A lease may be lost by now: its token is presented all the same, and the guard decides. */
function fenceOf(by) {
  return options.token(by instanceof Lease ? by.token : by);
}

// ---- limits

class Limit {
  constructor(core, name, { algorithm = 'bucket', rate = 0, per = 1000, burst = 0 } = {}) {
    const index = ALGORITHMS.indexOf(algorithm);
    if (index < 0) throw invalid(`algorithm: must be one of ${ALGORITHMS.join(', ')}`);
    this._core = core;
    this.name = name;
    this._rule = [index, options.count(rate, 'rate'), options.duration(per, 'per'), options.count(burst, 'burst')];
  }

  #call(begin, permits, wait, settle, signal) {
    const args = [this.name, ...this._rule, options.count(permits, 'permits'), wait];
    return this._core.call(begin, args, settle, signal).then(limitOf);
  }

  async take({ permits = 1, wait, signal } = {}) {
    const settle = (core, call, status, value, code, text) => {
      if (status === STATUS.OK) return call.resolve(value);
      const error = makeError(status, text, code);
      if (value) error.limit = limitOf(value);
      return status === STATUS.CANCELLED ? core.fail(call, status, code, text) : call.reject(error);
    };
    return this.#call(native.limitTake, permits, options.waiting(wait), settle, options.signalOf({ signal }));
  }

  /** null: it would have to wait. */
  async tryTake({ permits = 1 } = {}) {
    return this.#call(native.limitTake, permits, 0, orNull(STATUS.BUSY));
  }

  async get() {
    return this.#call(native.limitGet, 0, 0, orMissing);
  }

  async set() {
    return this.#call(native.limitSet, 0, 0);
  }
}

function limitOf(found) {
  return found ? { ...found, algorithm: ALGORITHMS[found.algorithm], at: found.at / 1000 } : null;
}

// ---- latches and barriers

class Latch {
  constructor(core, store, name) {
    this._core = core;
    this.name = name;
  }

  async create(count) {
    await this._core.call(native.latchCreate, [this.name, options.count(count, 'count')]);
  }

  async countDown(who) {
    return Number(await this._core.call(native.latchCountDown, [this.name, who]));
  }

  async join(who, opts) {
    const [wait, signal] = waits(opts);
    return this._core.call(native.latchJoin, [this.name, who, 0, wait, ttlOf(opts)], settleGrant, signal, silentGrant(this.name, Lease));
  }

  async wait(opts) {
    const [wait, signal] = waits(opts);
    await this._core.call(native.latchWait, [this.name, undefined, 0, wait, 0], undefined, signal);
  }

  async get() {
    return this._core.call(native.latchGet, [this.name]);
  }

  async delete() {
    await this._core.call(native.latchDelete, [this.name]);
  }
}

/** Inside a double barrier. */
class Party extends Lease {
  /** Leave, and wait until all have left. */
  leave({ wait, signal } = {}) {
    return this._endWaiting(native.barrierLeave, options.waiting(wait), options.signalOf({ signal }));
  }
}

class Barrier {
  constructor(core, name, parties) {
    this._core = core;
    this.name = name;
    this.parties = options.count(parties, 'parties');
  }

  async wait({ who, ...opts } = {}) {
    const [wait, signal] = waits(opts);
    await this._core.call(native.barrierWait, [this.name, who, this.parties, wait, ttlOf(opts)], undefined, signal);
  }

  async enter({ who, ...opts } = {}) {
    const [wait, signal] = waits(opts);
    const context = silentGrant(this.name, Party);
    return this._core.call(native.barrierEnter, [this.name, who, this.parties, wait, ttlOf(opts)], settleGrant, signal, context);
  }
}

// ---- elections and groups

class Leader extends Lease {
  async publish(value) {
    await this._call(native.electionSet, value);
  }

  resign() {
    return this._end(native.resign);
  }
}

const LEADER = Symbol('the leader that the library has seen last');
const MEMBERS = Symbol('the members that the library has seen last');

/** What was seen, and hidden in it what the next wait compares with. */
function seen(found, value, as) {
  Object.defineProperty(value, as, { value: found.last });
  return value;
}

/** What is hidden in `last`; undefined without it. */
function hidden(last, as, call) {
  if (last === undefined || last === null) return undefined;
  if (last[as] === undefined) throw invalid(`last: must be what ${call} returned, not a copy of it`);
  return last[as];
}

class Election {
  #store;

  constructor(core, store, name) {
    this._core = core;
    this.#store = store;
    this.name = name;
  }

  async campaign(value, opts) {
    const request = options.request(this.name, options.kind(opts?.kind ?? 'mutex'), opts, options.FOREVER);
    return this.#store._begin(native.campaign, request, [value], { signal: options.signalOf(opts), Kind: Leader });
  }

  /** Wait until there is something else than `last`; without it, at once. */
  async wait(last = undefined, opts = undefined) {
    const [wait, signal] = waits(opts);
    const found = await this._core.call(native.electionWait, [this.name, hidden(last, LEADER, 'wait()'), wait], undefined, signal);
    const { leads, token, value, label, version } = found;
    return seen(found, leads ? { leads, token, value, label, version } : { leads, version }, LEADER);
  }

  /** What is seen: first the present, then each change. */
  async *leaders({ signal } = {}) {
    let last;
    for (;;) {
      last = await this.wait(last, { signal });
      yield last;
    }
  }
}

class Member extends Lease {
  leave() {
    return this._end(native.memberLeave);
  }
}

class Group {
  #store;

  constructor(core, store, name) {
    this._core = core;
    this.#store = store;
    this.name = name;
  }

  async join(value = undefined, opts = undefined) {
    const request = options.request(this.name, options.kind('shared'), opts, options.FOREVER);
    return this.#store._begin(native.memberJoin, request, [value], { signal: options.signalOf(opts), Kind: Member });
  }

  async members(last = undefined, opts = undefined) {
    const [wait, signal] = waits(opts);
    const found = await this._core.call(native.membersWait, [this.name, hidden(last, MEMBERS, 'members()'), wait], undefined, signal);
    return seen(found, found.members, MEMBERS);
  }

  async *changes({ signal } = {}) {
    let last;
    for (;;) {
      last = await this.members(last, { signal });
      yield last;
    }
  }
}

// ---- once

class Task extends Lease {
  async finish() {
    await this._call(native.onceFinish);
  }
}

class Once {
  #store;

  constructor(core, store, name) {
    this._core = core;
    this.#store = store;
    this.name = name;
  }

  /** { task } if it is ours to do, else { mark }. `keep`: how long the mark stays. */
  async begin(opts = {}) {
    const request = options.request(this.name, options.kind(opts.kind ?? 'mutex'), opts, options.FOREVER, ['keep']);
    const task = await this.#store._begin(native.onceBegin, request, [options.duration(opts.keep, 'keep')], {
      signal: options.signalOf(opts),
      Kind: Task,
      onDone: (mark) => ({ mark: markOf(mark) }),
    });
    return task instanceof Task ? { task } : task;
  }

  /** Run `work(task)` if it was not done before. true: we did it. */
  async run(work, opts = undefined) {
    const { task } = await this.begin(opts);
    if (!task) return false;
    try {
      await work(task);
      await task.finish();
    } catch (error) {
      await task.release().catch(() => {}); // the first error counts
      throw error;
    }
    await task.release();
    return true;
  }

  async get() {
    return markOf(await this._core.call(native.onceGet, [this.name], orMissing));
  }

  /** Begin under a lease that is held. null: it is ours to do; else the mark. */
  async claim(lease, { keep } = {}) {
    const settle = (core, call, status, value, code, text) => {
      if (status === STATUS.OK || status === STATUS.DONE) return call.resolve(status === STATUS.OK ? null : markOf(value));
      return core.fail(call, status, code, text);
    };
    return lease._callWith(native.onceClaim, [options.duration(keep, 'keep')], settle);
  }

  async finish(lease) {
    await lease._call(native.onceFinish);
  }

  /** false: there was no mark. */
  async delete() {
    return (await this._core.call(native.onceDelete, [this.name], orMissing)) !== null;
  }
}

function markOf(mark) {
  return mark ? { ...mark, ttl: mark.ttl < 0 ? undefined : mark.ttl, at: new Date(mark.at) } : null;
}

module.exports = {
  Cell, Counter, Guard, Limit, Latch, Party, Barrier, Leader, Election, Member, Group, Task, Once, commit, leaseCell,
  use: (settle, silent) => {
    settleGrant = settle;
    silentGrant = silent;
  },
};
