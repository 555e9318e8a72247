// SPDX-License-Identifier: MIT
'use strict';

/**
 * Calls that are under way. The addon begins one and returns its index; it calls deliver() once for each, and event() for leases.
 * Both run while the addon is in hf_store_process(): they settle promises, and the reactions run afterwards.
 */
const native = require('./native.js');
const { makeError, invalid, cancelled, status: STATUS } = require('./errors.js');
const { Holding, EVENTS } = require('./lease.js');

function closed() {
  return invalid('store: it is closed');
}

/** One call: what becomes of its answer. */
class Call {
  constructor(resolve, reject, settle, context) {
    this.resolve = resolve;
    this.reject = reject;
    this.settle = settle;
    this.context = context;
    this.index = -1;
    this.signal = undefined;
    this.onAbort = undefined;
  }
}

class Core {
  constructor() {
    this.handle = undefined;
    this.calls = [];
    this.leases = [];
    this.early = new Map(); // events that came before their acquire was answered
    this.out = new Float64Array(2);
    this.closed = false;
    this.closing = undefined; // the promise of the last close
    this.embedded = false;
  }

  open(url, label, wait, flags) {
    return new Promise((resolve, reject) => {
      const opened = (status, code, text, handle) => {
        if (status !== STATUS.OK) return reject(makeError(status, text, code));
        this.handle = handle;
        this.embedded = native.info(handle).embedded;
        return resolve(this);
      };
      native.open(url, label, wait, flags, this.deliver.bind(this), this.event.bind(this), this.out, opened);
    });
  }

  /** Without `release` a store that is in use stays open. */
  close(release) {
    if (this.closed) return release ? this.closing.catch(() => this.close(true)) : this.closing;
    this.closed = true;
    this.closing = new Promise((resolve, reject) => {
      native.close(this.handle, release ? 1 : 0, (status) => {
        if (status === STATUS.OK) return resolve();
        this.closed = false;
        return reject(makeError(status, 'close: leases are held, or calls are pending'));
      });
    });
    return this.closing;
  }

  error() {
    const [status, code, text] = native.error(this.handle);
    return makeError(status, text, code);
  }

  check() {
    if (this.closed) throw closed();
  }

  /**
   * Begin `begin` of the addon. `settle(status, value)` gives the result for a status that is not an error of its own; without it only OK has
   * one, the value. `signal` cancels the call.
   */
  call(begin, args, settle, signal, context) {
    if (this.closed) return Promise.reject(closed());
    if (signal?.aborted) return Promise.reject(cancelled(signal));
    return this.begun(begin(this.handle, ...args), settle, signal, context);
  }

  /** A call that the addon has begun, or refused. */
  begun(index, settle, signal, context) {
    return new Promise((resolve, reject) => {
      if (index < 0) return reject(this.error());
      const call = new Call(resolve, reject, settle, context);
      call.index = index;
      this.calls[index] = call;
      if (signal) this.listen(call, index, signal);
      return undefined;
    });
  }

  listen(call, index, signal) {
    call.signal = signal;
    call.onAbort = () => native.cancel(this.handle, index);
    signal.addEventListener('abort', call.onAbort, { once: true });
  }

  deliver(index, status, value, code, text) {
    const call = this.calls[index];
    this.calls[index] = undefined;
    if (call.onAbort) call.signal.removeEventListener('abort', call.onAbort);
    if (!call.settle) return status === STATUS.OK ? call.resolve(value) : this.fail(call, status, code, text);
    try {
      return call.settle(this, call, status, value, code, text);
    } catch (error) {
      return call.reject(error);
    }
  }

  fail(call, status, code, text) {
    if (status === STATUS.CANCELLED && call.signal?.aborted) return call.reject(cancelled(call.signal));
    return call.reject(makeError(status, text, code));
  }

  /** `event` 0: what was kept for this index is not for the next lease that gets it. */
  event(index, event, text) {
    if (event === 0) return this.early.delete(index);
    const holding = this.leases[index];
    if (holding) return holding.tell(EVENTS[event], text);
    if (!this.early.has(index)) this.early.set(index, []);
    return this.early.get(index).push([event, text]);
  }

  /** A lease that was granted: of a new slot, or (reentrant) of one that we have. */
  granted(index, token, name) {
    let holding = this.leases[index];
    if (holding && !holding.ended) {
      holding.holds++;
      return holding;
    }
    holding = new Holding(this, index, token, name);
    this.leases[index] = holding;
    if (this.early.size > 0) {
      for (const [event, text] of this.early.get(index) ?? []) holding.tell(EVENTS[event], text);
      this.early.delete(index);
    }
    return holding;
  }

  /** The slot of an ended lease may be that of another one by now. */
  forget(holding) {
    const { index } = holding;
    if (this.leases[index] !== undefined && this.leases[index] !== holding) return;
    this.leases[index] = undefined;
    if (this.early.size > 0) this.early.delete(index);
  }
}

module.exports = { Core };
