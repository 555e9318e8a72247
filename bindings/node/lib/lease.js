// SPDX-License-Identifier: MIT
'use strict';

/**
 * Leases. A `Lease` is what callers have; its `Holding` is what the store has of it. The store refers to the holding only, so that a lease which
 * a program forgets is noticed: it is reported, and stays held, because the code that it protects may still run.
 */
const { EventEmitter } = require('node:events');
const native = require('./native.js');
const { makeError, status: STATUS } = require('./errors.js');
const options = require('./options.js');

const EVENTS = [undefined, 'atRisk', 'held', 'lost', 'wanted', 'unwanted', 'asked'];
const STATES = [undefined, 'held', 'atRisk', 'lost'];
const asyncDispose = Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose');

function asText(name) {
  return typeof name === 'string' ? name : Buffer.from(name).toString();
}

const forgotten = new FinalizationRegistry((holding) => {
  if (holding.ended || holding.core.closed) return;
  process.emitWarning(
    `the lease of '${asText(holding.name)}' (token ${holding.token}) was forgotten; it stays held until the store is closed`,
    { type: 'HoldfastWarning', code: 'HOLDFAST_FORGOTTEN' },
  );
});

class Holding {
  constructor(core, index, token, name) {
    this.core = core;
    this.index = index;
    this.token = token;
    this.name = name;
    this.holds = 1;
    this.ended = false; // released, or being released
    this.lost = undefined; // why
    this.silent = false; // the library has no callback for it: it must be watched
    this.lease = undefined; // reentrant leases only: the same object again
    this.emitter = undefined;
    this.streams = undefined;
    this.controller = undefined;
  }

  /** Something happened to it. Listeners run later, never within a call of theirs. */
  tell(type, text) {
    if (type === 'lost') {
      if (this.lost !== undefined) return;
      text ||= 'the lease is lost';
      this.lost = text;
    }
    queueMicrotask(() => {
      if (type === 'lost') this.controller?.abort(makeError(STATUS.LOST, this.lost));
      const event = { type, text: text || undefined };
      if (this.streams) for (const stream of this.streams) stream.push(event);
      this.emitter?.emit(type, event);
    });
  }

  /** Somebody listens from now on. */
  listen() {
    if (!this.silent || this.ended || this.core.closed) return;
    this.silent = false;
    native.leaseWatch(this.core.handle, this.index);
  }

  end() {
    this.ended = true;
    forgotten.unregister(this);
    if (this.streams) for (const stream of this.streams) queueMicrotask(() => stream.finish());
  }
}

/** The events of one lease for one loop. */
class EventStream {
  constructor(holding, signal) {
    this.holding = holding;
    this.queue = [];
    this.waiters = []; // next() may be called again before the last answer
    this.over = holding.ended;
    this.signal = signal;
    this.onAbort = () => this.finish();
    if (this.signal?.aborted) this.over = true;
    else this.signal?.addEventListener('abort', this.onAbort, { once: true });
    (holding.streams ??= new Set()).add(this);
    holding.listen();
    if (holding.lost !== undefined) this.push({ type: 'lost', text: holding.lost });
  }

  push(event) {
    if (this.over) return;
    if (this.waiters.length > 0) this.answer({ value: event, done: false });
    else this.queue.push(event);
    if (event.type === 'lost') this.finish();
  }

  answer(result) {
    const waiter = this.waiters.shift();
    native.keep(this.holding.core.handle, false);
    waiter(result);
  }

  finish() {
    this.over = true;
    this.holding.streams?.delete(this);
    this.signal?.removeEventListener('abort', this.onAbort);
    while (this.waiters.length > 0) this.answer({ value: undefined, done: true });
  }

  /** A loop that waits keeps the program running, as any call that waits. */
  next() {
    if (this.queue.length > 0) return Promise.resolve({ value: this.queue.shift(), done: false });
    if (this.over) return Promise.resolve({ value: undefined, done: true });
    native.keep(this.holding.core.handle, true);
    return new Promise((resolve) => {
      this.waiters.push(resolve);
    });
  }

  return(value) {
    this.finish();
    return Promise.resolve({ value, done: true });
  }

  [Symbol.asyncIterator]() {
    return this;
  }
}

/** How the answers of calls that end a lease are settled. */
function settleEnd(core, call, status, value, code, text) {
  const holding = call.context;
  core.forget(holding);
  if (status === STATUS.LOST) holding.tell('lost', text);
  return status === STATUS.OK ? call.resolve() : core.fail(call, status, code, text);
}

/** It was released while a yield or a conversion waited: what has come has no owner. */
function giveBack(core, call, holding) {
  const end = () => call.reject(makeError(STATUS.INVALID, 'the lease was released meanwhile'));
  core.begun(native.release(core.handle, holding.index), settleEnd, undefined, holding).then(end, end);
}

function settleReplaced(core, call, status, value, code, text) {
  const holding = call.context;
  if (status === STATUS.OK || status === STATUS.YIELDED) {
    if (holding.ended) return giveBack(core, call, holding);
    holding.token = core.out[0];
    return call.resolve(status === STATUS.YIELDED);
  }
  if (status === STATUS.LOST && !holding.ended) holding.tell('lost', text);
  if (holding.ended) core.forget(holding);
  return core.fail(call, status, code, text);
}

function settleYield(core, call, status, value, code, text) {
  const holding = call.context;
  if (status !== STATUS.OK && status !== STATUS.YIELDED) {
    core.forget(holding); // nothing is held
    holding.lost ??= 'given away';
    if (!holding.ended) holding.end();
  }
  return settleReplaced(core, call, status, value, code, text);
}

class Lease {
  #holding;

  constructor(holding) {
    // The report of forgotten leases would fail on anything else, and end the program.
    if (!(holding instanceof Holding)) throw new TypeError('a lease is made by acquiring it');
    this.#holding = holding;
    forgotten.register(this, holding, holding);
  }

  get name() {
    return asText(this.#holding.name);
  }

  get token() {
    return this.#holding.token;
  }

  get state() {
    return this.#over() ? 'lost' : STATES[native.leaseState(this.#holding.core.handle, this.#holding.index)];
  }

  get remaining() {
    return this.#over() ? 0 : native.leaseRemaining(this.#holding.core.handle, this.#holding.index);
  }

  get valid() {
    return this.remaining > 0;
  }

  get wanted() {
    return !this.#over() && native.leaseWanted(this.#holding.core.handle, this.#holding.index);
  }

  get released() {
    return this.#holding.ended;
  }

  /** Aborted when the lease is lost. */
  get signal() {
    const holding = this.#holding;
    if (!holding.controller) {
      holding.controller = new AbortController();
      holding.listen();
      if (holding.lost !== undefined) holding.controller.abort(makeError(STATUS.LOST, holding.lost));
    }
    return holding.controller.signal;
  }

  #over() {
    return this.#holding.ended || this.#holding.core.closed;
  }

  #check() {
    if (this.#holding.ended) throw makeError(STATUS.INVALID, 'lease: it has ended');
    if (this.#holding.core.closed) throw makeError(STATUS.LOST, 'its store was closed');
    return this.#holding.core;
  }

  #found(value) {
    if (value === undefined) throw this.#holding.core.error();
    return value;
  }

  info() {
    const info = native.leaseInfo(this.#check().handle, this.#holding.index);
    if (!info) throw makeError(STATUS.INVALID, 'lease: it has ended');
    return { ...info, name: asText(info.nameBytes), state: STATES[info.state], kind: options.KINDS[info.kind] };
  }

  fence() {
    return this.#found(native.leaseFence(this.#check().handle, this.#holding.index));
  }

  export() {
    const text = this.#found(native.leaseExport(this.#check().handle, this.#holding.index));
    forgotten.unregister(this.#holding); // it may live on with another owner
    return text;
  }

  session(around = undefined) {
    return this.#found(native.leaseSession(this.#check().handle, this.#holding.index, around));
  }

  async renew(ttl = undefined) {
    await this.#check().call(native.renew, [this.#holding.index, options.duration(ttl, 'ttl')]);
  }

  async setCell(name, bytes) {
    await this.#check().call(native.leaseCellSet, [this.#holding.index, name, bytes]);
  }

  yield({ wait, signal } = {}) {
    return this.#call(native.yield, [options.waiting(wait)], settleYield, signal);
  }

  async convert(kind, { wait, signal } = {}) {
    await this.#call(native.convert, [options.kind(kind), options.waiting(wait)], settleReplaced, signal);
  }

  async #call(begin, args, settle, signal) {
    const core = this.#check();
    return core.call(begin, [this.#holding.index, ...args], settle, options.signalOf({ signal }), this.#holding);
  }

  /** End one hold by `begin`: for release() and its relatives. */
  _end(begin) {
    return this._endWaiting(begin);
  }

  _endWaiting(begin, wait = undefined, signal = undefined) {
    const holding = this.#holding;
    let core;
    try {
      core = this.#check();
    } catch (error) {
      if (holding.core.closed && !holding.ended) holding.end();
      return Promise.reject(error);
    }
    if (--holding.holds === 0) holding.end();
    if (begin === native.release && core.embedded) return endNow(core, holding);
    if (signal?.aborted) signal = undefined; // it has left all the same; the call ends when the store has been told
    return core.begun(begin(core.handle, holding.index, wait), holding.ended ? settleEnd : undefined, signal, holding);
  }

  /** For calls of its own kinds (publish, finish, ...). */
  async _call(begin, ...args) {
    return this._callWith(begin, args);
  }

  async _callWith(begin, args, settle = undefined) {
    return this.#check().call(begin, [this.#holding.index, ...args], settle);
  }

  release() {
    return this._end(native.release);
  }

  events({ signal } = {}) {
    return new EventStream(this.#holding, options.signalOf({ signal }));
  }

  #emitter() {
    this.#holding.listen();
    return (this.#holding.emitter ??= new EventEmitter());
  }

  on(type, listener) {
    this.#emitter().on(type, listener);
    return this;
  }

  once(type, listener) {
    this.#emitter().once(type, listener);
    return this;
  }

  off(type, listener) {
    this.#holding.emitter?.off(type, listener);
    return this;
  }

  addListener(type, listener) {
    return this.on(type, listener);
  }

  removeListener(type, listener) {
    return this.off(type, listener);
  }

  /** Does nothing if it was released before. */
  async [asyncDispose]() {
    if (!this.#holding.ended) await this.release();
  }
}

const done = Promise.resolve();

/** The embedded store: at once. */
function endNow(core, holding) {
  const status = native.directRelease(core.handle, holding.index);
  if (holding.ended) core.forget(holding);
  if (status === STATUS.OK) return done;
  if (status === STATUS.LOST) holding.tell('lost', core.error().text);
  return Promise.reject(core.error());
}

module.exports = { Lease, Holding, EVENTS, asText, asyncDispose };
