// SPDX-License-Identifier: MIT
'use strict';

/** What a process has done with a store, as numbers. */
const native = require('./native.js');
const { invalid } = require('./errors.js');

const BOUNDS = Object.freeze([...native.bounds.slice(0, -1), Infinity]);

/** Durations in ms, counted by their length. */
class Histogram {
  constructor({ count, sum, buckets }) {
    this.count = count;
    this.sum = sum;
    this.buckets = buckets;
  }

  static get bounds() {
    return BOUNDS;
  }

  quantile(share) {
    if (typeof share !== 'number' || Number.isNaN(share)) throw invalid('share: must be a number from 0 to 1');
    const bound = native.quantile(this.buckets, share);
    return bound > BOUNDS.at(-2) ? Infinity : bound;
  }
}

/** null: the store is closed. */
function stats(handle) {
  const found = native.stats(handle);
  return found ? { ...found, waits: new Histogram(found.waits), holds: new Histogram(found.holds) } : null;
}

module.exports = { Histogram, stats };
