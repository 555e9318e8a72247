// SPDX-License-Identifier: MIT
'use strict';

/** Errors: one class, and one below it for each status that programs handle. */
const native = require('./native.js');

const statuses = native.statuses();

class HoldfastError extends Error {
  constructor(number, text, nativeCode = 0, options = undefined) {
    const [name, meaning] = statuses[number] ?? ['INTERNAL', `status ${number}`];
    super(text || meaning, options);
    this.status = name;
    this.statusNumber = number;
    this.native = nativeCode;
    this.text = this.message;
    this.code = `HF_${name}`;
  }
}
Object.defineProperty(HoldfastError.prototype, 'name', { value: 'HoldfastError', writable: true, configurable: true });

const classes = { HoldfastError };
const byNumber = [];

/** A status that has a class of its own: `makeClass('BUSY', 'BusyError')`. */
function makeClass(status, name, shown = name) {
  const cls = { [name]: class extends HoldfastError {} }[name];
  Object.defineProperty(cls.prototype, 'name', { value: shown, writable: true, configurable: true });
  classes[name] = cls;
  byNumber[statuses.findIndex((item) => item[0] === status)] = cls;
}

makeClass('BUSY', 'BusyError');
makeClass('TIMEOUT', 'TimeoutError');
makeClass('CANCELLED', 'CancelledError', 'AbortError'); // as other interfaces that take an AbortSignal
makeClass('MISMATCH', 'MismatchError');
makeClass('LOST', 'LostError');
makeClass('NOT_FOUND', 'NotFoundError');
makeClass('INVALID', 'InvalidError');
makeClass('CONFIG', 'ConfigError');
makeClass('UNSUPPORTED', 'UnsupportedError');
makeClass('UNAVAILABLE', 'UnavailableError');
makeClass('DENIED', 'DeniedError');
makeClass('UNKNOWN', 'UnknownError');
makeClass('IN_USE', 'InUseError');
makeClass('FENCED', 'FencedError');
makeClass('DEADLOCK', 'DeadlockError');
makeClass('CHANGED', 'ChangedError');
makeClass('BROKEN', 'BrokenError');

const number = Object.fromEntries(statuses.map((item, index) => [item[0], index]));

function makeError(status, text, nativeCode, options) {
  return new (byNumber[status] ?? HoldfastError)(status, text, nativeCode, options);
}

function invalid(text) {
  return makeError(number.INVALID, text);
}

function cancelled(signal) {
  const error = makeError(number.CANCELLED, 'cancelled: the signal was aborted', 0, { cause: signal.reason });
  error.code = 'ABORT_ERR';
  return error;
}

module.exports = { classes, makeError, invalid, cancelled, status: number };
