// SPDX-License-Identifier: MIT
'use strict';

/** What callers say, as the addon expects it: durations in whole milliseconds, flags as bits, requests as lists. */
const { invalid } = require('./errors.js');

const FOREVER = -1;
const LONGEST = 3650 * 24 * 3600 * 1000; // HF_DURATION_MAX_MS
const KINDS = ['mutex', 'shared', 'exclusive', 'semaphore', 'upgradeable'];
const FLAGS = new Map(
  ['barge', 'reentrant', 'noRenew', 'detached', 'strict', 'noDeadlockCheck', 'watch', 'numbered'].map((name, bit) => [name, 1 << bit]),
);
const CAPS = [
  ...['shared', 'semaphore', 'wait', 'fifo', 'ttl', 'process', 'detached', 'token', 'pass', 'barge', 'lockDelay', 'inspect', 'waiters'],
  ...['break', 'watch', 'cells', 'cellTtl', 'cellWatch', 'clock', 'scripts', 'wanted', 'linger', 'commit', 'convert', 'numbered', 'resize'],
];
const RARE = ['maxHold', 'minValid', 'lockDelay', 'minHold', 'linger', 'scope', 'label', 'session'];

/** A duration in ms. One that is not zero never becomes zero. */
function duration(value, what) {
  if (value === undefined) return 0;
  if (typeof value !== 'number' || !(value >= 0)) throw invalid(`${what}: must be a number of milliseconds that is not negative`);
  if (value > 2 ** 52) throw invalid(`${what}: too long`);
  return Math.ceil(value);
}

/** How long to wait: Infinity is for ever, and so is what is longer than the library knows. */
function waiting(value, otherwise = FOREVER) {
  if (value === undefined) return otherwise;
  return typeof value === 'number' && value >= LONGEST ? FOREVER : duration(value, 'wait');
}

function count(value, what) {
  if (value === undefined) return 0;
  if (!Number.isInteger(value) || value < 0 || value > 0xffffffff) throw invalid(`${what}: must be a whole number`);
  return value;
}

function token(value) {
  if (!Number.isSafeInteger(value) || value < 0) throw invalid('token: must be a positive whole number');
  return value;
}

function big(value, what) {
  if (typeof value === 'bigint') return value;
  if (Number.isSafeInteger(value)) return BigInt(value);
  throw invalid(`${what}: must be a BigInt or a whole number`);
}

/** A version is not negative: as 64 bits without a sign, -1 would be "any version" in a commit. */
function version(value, what) {
  const number = big(value, what);
  if (number < 0n) throw invalid(`${what}: must not be negative`);
  return number;
}

function kind(value) {
  const index = KINDS.indexOf(value);
  if (index < 0) throw invalid(`kind: must be one of ${KINDS.join(', ')}`);
  return index;
}

function rare(name, value) {
  switch (name) {
    case 'label':
    case 'session':
      return value;
    case 'scope':
      return big(value, 'scope');
    case 'linger':
      return value === false ? -1 : duration(value, name);
    default:
      return duration(value, name);
  }
}

const PLAIN = new Set(['name', 'kind', 'signal', 'wait', 'ttl', 'capacity', 'permits']);

/** One request: [name, kind, capacity, permits, flags, wait, ttl, rare]. Options that are not known are refused: a typing error in one must not make a lock weaker. */
function request(name, kindNumber, options, defaultWait, also = undefined) {
  const packed = [name, kindNumber, 0, 0, 0, defaultWait, 0, undefined];
  if (options === undefined || options === null) return packed;
  if (typeof options !== 'object') throw invalid('options: must be an object');
  for (const key of Object.keys(options)) {
    const value = options[key];
    if (value === undefined) continue;
    if (FLAGS.has(key)) packed[4] |= value ? FLAGS.get(key) : 0;
    else if (RARE.includes(key)) (packed[7] ??= new Array(8))[RARE.indexOf(key)] = rare(key, value);
    else if (!PLAIN.has(key) && !also?.includes(key)) throw invalid(`options: there is no option '${key}'`);
  }
  packed[2] = count(options.capacity, 'capacity');
  packed[3] = count(options.permits, 'permits');
  packed[5] = waiting(options.wait, defaultWait);
  packed[6] = duration(options.ttl, 'ttl');
  if (packed[4] & FLAGS.get('reentrant') && !packed[7]?.[5]) {
    throw invalid('reentrant: needs a scope, because all code of a thread shares the thread');
  }
  return packed;
}

function signalOf(options) {
  const signal = options?.signal;
  if (signal === undefined || signal === null) return undefined;
  if (typeof signal.addEventListener !== 'function') throw invalid('signal: must be an AbortSignal');
  return signal;
}

function names(bits) {
  return CAPS.filter((_, index) => (bits >> BigInt(index)) & 1n);
}

module.exports = { FOREVER, KINDS, CAPS, duration, waiting, count, token, big, version, kind, request, signalOf, names };
