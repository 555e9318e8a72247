// SPDX-License-Identifier: MIT
'use strict';

const { Store, open, engines, newScope } = require('./lib/store.js');
const { Lease, asyncDispose } = require('./lib/lease.js');
const { classes } = require('./lib/errors.js');
const { Leader, Member, Party, Task } = require('./lib/primitives.js');
const { Histogram } = require('./lib/stats.js');
const { version } = require('./lib/native.js');

module.exports = {
  open,
  engines,
  newScope,
  version,
  asyncDispose,
  Store,
  Histogram,
  Lease,
  Leader,
  Member,
  Party,
  Task,
  HoldfastError: classes.HoldfastError,
  BusyError: classes.BusyError,
  TimeoutError: classes.TimeoutError,
  CancelledError: classes.CancelledError,
  MismatchError: classes.MismatchError,
  LostError: classes.LostError,
  NotFoundError: classes.NotFoundError,
  InvalidError: classes.InvalidError,
  ConfigError: classes.ConfigError,
  UnsupportedError: classes.UnsupportedError,
  UnavailableError: classes.UnavailableError,
  DeniedError: classes.DeniedError,
  UnknownError: classes.UnknownError,
  InUseError: classes.InUseError,
  FencedError: classes.FencedError,
  DeadlockError: classes.DeadlockError,
  ChangedError: classes.ChangedError,
  BrokenError: classes.BrokenError,
};
